package adopt

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Servers is what came of the JSON of MCP servers.
type Servers struct {
	YAML      []byte // a mapping `mcp_servers`, without any secret of the JSON
	Variables []Variable
	Notes     []string
}

var (
	notServer = regexp.MustCompile(`[^A-Za-z0-9_-]+`)
	// leftToReader is a value that documentation leaves to the reader, or that another program asks for.
	leftToReader = regexp.MustCompile(`^(?:<.*>|\$\{.*\}|(?i:your[-_ ].*))$`)
	secretFlag   = regexp.MustCompile(`^--?([\w-]+)(?:=.*)?$`)
)

// MCP makes `mcp_servers` of the JSON that other programs take: {"mcpServers": {NAME: {"command", "args", "env"}}}, with
// "servers" in place of it, or the inner mapping alone.
func MCP(data string) (Servers, error) {
	root, err := readJSON(data)
	if err != nil {
		return Servers{}, fmt.Errorf("reading the JSON: %w", err)
	}
	for _, key := range []string{"mcp", "mcpServers", "servers"} {
		if inner := valueOf(root, key); inner != nil {
			root = inner
		}
	}
	if root.Kind != yaml.MappingNode || len(root.Content) == 0 {
		return Servers{}, errors.New(`want a JSON object with the key mcpServers`)
	}
	r := &servers{out: mapping(0)}
	var faults []error
	for i := 0; i+1 < len(root.Content); i += 2 {
		faults = append(faults, r.server(root.Content[i].Value, root.Content[i+1]))
	}
	if err := errors.Join(faults...); err != nil {
		return Servers{}, err
	}
	out, err := yaml.Dump(mapping(0, "mcp_servers", r.out), yaml.WithV3Defaults(), yaml.WithIndent(2), yaml.WithLineWidth(-1))
	return Servers{YAML: out, Variables: r.variables, Notes: r.notes}, err
}

type servers struct {
	out       *yaml.Node
	variables []Variable
	notes     []string
}

func valueOf(n *yaml.Node, key string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// server adds one entry.
func (r *servers) server(given string, n *yaml.Node) error {
	name := strings.Trim(notServer.ReplaceAllString(given, "_"), "_")
	if n.Kind != yaml.MappingNode || name == "" || valueOf(r.out, name) != nil {
		return fmt.Errorf("%q: want a name of its own and an object with command or url", given)
	}
	entry := mapping(0)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, v := n.Content[i].Value, n.Content[i+1]
		switch key {
		case "serverUrl", "httpUrl":
			key = "url"
		case "command", "cwd", "url", "type", "transport":
		case "args":
			if secretArguments(v) {
				return fmt.Errorf("%s: the args hold a secret, which everybody on the machine can read: set it under env, where the program reads it", name)
			}
			v.Style = yaml.FlowStyle
		case "env", "headers":
			r.values(name, key, v)
		default:
			r.notes = append(r.notes, fmt.Sprintf("%s.%s is left out: it is a setting of another program; see docs/tools.md for what can be set", name, key))
			continue
		}
		if key == "url" {
			if _, query, ok := strings.Cut(v.Value, "?"); ok && secretName(query, false) || secretText(v.Value) || strings.Contains(v.Value, "@") {
				v = text(r.variable(variableName(name)+"_URL", "the whole url of "+name+", with its secret"))
			}
		}
		entry.Content = append(entry.Content, text(key), v)
	}
	r.out.Content = append(r.out.Content, text(name), entry)
	return nil
}

// secretArguments says whether the arguments of a program hold a secret, by what it looks like or by the option before it.
func secretArguments(list *yaml.Node) bool {
	for i, a := range list.Content {
		if m := secretFlag.FindStringSubmatch(a.Value); m != nil && secretName(m[1], false) && (strings.Contains(a.Value, "=") || i+1 < len(list.Content)) {
			return true
		}
		if name, value, ok := strings.Cut(a.Value, ":"); secretText(a.Value) || ok && secretName(name, false) && value != "" && !strings.HasPrefix(value, "//") {
			return true
		}
	}
	return false
}

// values puts references in place of the secrets of env or headers, and makes texts of numbers and booleans.
func (r *servers) values(server, kind string, n *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, v := n.Content[i].Value, n.Content[i+1]
		if v.Kind != yaml.ScalarNode {
			continue // the check of the file says what is wrong with it
		}
		if v.Value == "" || !secretName(name, false) && !secretText(v.Value) && !leftToReader.MatchString(v.Value) {
			n.Content[i+1] = text(strings.ReplaceAll(v.Value, "${", "$${"))
			continue
		}
		variable, before := variableName(name), ""
		if kind == "headers" {
			if scheme, _, ok := strings.Cut(v.Value, " "); ok && authScheme.MatchString(scheme) {
				before = scheme + " "
			}
			variable = variableName(server + "_" + strings.TrimPrefix(strings.ToLower(name), "x-"))
			if strings.EqualFold(name, "Authorization") {
				variable = variableName(server + "_token")
			}
		}
		n.Content[i+1] = text(before + r.variable(variable, fmt.Sprintf("%s.%s of %s", kind, name, server)))
	}
}

func (r *servers) variable(name, what string) string {
	if !slices.ContainsFunc(r.variables, func(v Variable) bool { return v.Name == name }) {
		r.variables = append(r.variables, Variable{name, what})
	} else {
		r.notes = append(r.notes, name+" serves more than one value: look whether they are the same")
	}
	return "${" + name + "}"
}
