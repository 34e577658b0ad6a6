package openapi

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/toolgate/toolgate/internal/schema/jsontree"
)

// maxValues is how many values a YAML document may have once its aliases are in place: some lines of them can spell
// gigabytes.
const maxValues = 2_000_000

// parseYAML is the tree of a YAML document. Unlike the configuration's own reader this one has no limit of keys, as
// documents with tens of thousands of lines are common.
func parseYAML(data []byte) (*jsontree.Value, error) {
	var n yaml.Node
	if err := yaml.Unmarshal(data, &n); err != nil {
		return nil, fmt.Errorf("not valid YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if n.Kind != yaml.DocumentNode || len(n.Content) == 0 {
		return nil, errors.New("the file is empty")
	}
	return (&yamlReader{}).value(n.Content[0], 1)
}

type yamlReader struct{ values int }

func (r *yamlReader) value(n *yaml.Node, depth int) (*jsontree.Value, error) {
	if r.values++; r.values > maxValues {
		return nil, fmt.Errorf("line %d: more than %d values", n.Line, maxValues)
	}
	if depth > jsontree.MaxDepth { // also where an alias stands in its own anchor
		return nil, fmt.Errorf("line %d: nested deeper than %d levels", n.Line, jsontree.MaxDepth)
	}
	switch n.Kind {
	case yaml.AliasNode:
		return r.value(n.Alias, depth+1)
	case yaml.MappingNode:
		return r.mapping(n, depth)
	case yaml.SequenceNode:
		v := &jsontree.Value{Kind: jsontree.List}
		for _, item := range n.Content {
			i, err := r.value(item, depth+1)
			if err != nil {
				return nil, err
			}
			v.Items = append(v.Items, i)
		}
		return v, nil
	case yaml.ScalarNode:
		return scalar(n), nil
	default:
		return nil, fmt.Errorf("line %d: a value was expected", n.Line)
	}
}

func (r *yamlReader) mapping(n *yaml.Node, depth int) (*jsontree.Value, error) {
	v := newObject()
	lines := make(map[string]int, len(n.Content)/2)
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("line %d: a key must be a text", key.Line)
		}
		if key.ShortTag() == "!!merge" {
			merged = append(merged, n.Content[i+1])
			continue
		}
		if first := lines[key.Value]; first != 0 {
			return nil, fmt.Errorf("line %d: the key %q stands twice, first in line %d", key.Line, cut(key.Value, 100), first)
		}
		lines[key.Value] = key.Line
		c, err := r.value(n.Content[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		v.Members = append(v.Members, jsontree.Member{Key: key.Value, Value: c})
	}
	for _, m := range merged {
		if err := r.merge(v, m, depth); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// merge adds what a merge key (<<) names: a mapping or a list of mappings. What v has already stays.
func (r *yamlReader) merge(v *jsontree.Value, n *yaml.Node, depth int) error {
	from, err := r.value(n, depth+1)
	if err != nil {
		return err
	}
	mappings := []*jsontree.Value{from}
	if from.Is(jsontree.List) {
		mappings = from.Items
	}
	for _, each := range mappings {
		if !each.Is(jsontree.Object) {
			return fmt.Errorf("line %d: want a mapping to merge", n.Line)
		}
		for _, m := range each.Members {
			if v.Get(m.Key) == nil {
				v.Set(m.Key, m.Value)
			}
		}
	}
	return nil
}

var jsonNumber = regexp.MustCompile(`^-?(?:0|[1-9][0-9]{0,99})(?:\.[0-9]{1,99})?(?:[eE][-+]?[0-9]{1,3})?$`)

// scalar keeps the spelling of numbers where JSON has it too. Dates, .inf and .nan are texts, as JSON has none of them.
func scalar(n *yaml.Node) *jsontree.Value {
	switch n.ShortTag() {
	case "!!null":
		return &jsontree.Value{}
	case "!!bool":
		return jsontree.Boolean(strings.EqualFold(n.Value, "true"))
	case "!!int", "!!float":
		plain := strings.TrimPrefix(strings.ReplaceAll(n.Value, "_", ""), "+")
		if jsonNumber.MatchString(plain) {
			return &jsontree.Value{Kind: jsontree.Number, Text: plain}
		}
		if i, ok := new(big.Int).SetString(plain, 0); ok {
			return &jsontree.Value{Kind: jsontree.Number, Text: i.String()}
		}
		if f, err := strconv.ParseFloat(plain, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) { // .5
			return &jsontree.Value{Kind: jsontree.Number, Text: strconv.FormatFloat(f, 'g', -1, 64)}
		}
	}
	return jsontree.Text(n.Value)
}
