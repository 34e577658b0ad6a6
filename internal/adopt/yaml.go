package adopt

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/toolgate/toolgate/internal/tool"
)

// text is a YAML string, in quotes where it would else be something other.
func text(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }

// mapping is a YAML mapping of keys and values in turn; a nil value leaves its key out.
func mapping(style yaml.Style, keysAndValues ...any) *yaml.Node {
	m := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Style: style}
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		switch v := keysAndValues[i+1].(type) {
		case *yaml.Node:
			if v != nil {
				m.Content = append(m.Content, text(keysAndValues[i].(string)), v)
			}
		case string:
			if v != "" {
				m.Content = append(m.Content, text(keysAndValues[i].(string)), text(v))
			}
		}
	}
	return m
}

// orNil is a mapping or list unless it is empty.
func orNil(n *yaml.Node) *yaml.Node {
	if len(n.Content) == 0 {
		return nil
	}
	return n
}

// readJSON is a JSON text as YAML nodes: the order of keys and the spelling of numbers stay.
func readJSON(data string) (*yaml.Node, error) {
	d := json.NewDecoder(strings.NewReader(data))
	d.UseNumber()
	n, err := readValue(d)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more stands behind the JSON value")
	}
	return n, nil
}

func readValue(d *json.Decoder) (*yaml.Node, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case string:
		return text(v), nil
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!float", Value: v.String()}, nil
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: v.String()}, nil
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(v)}, nil
	case nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
	}
	n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	if token == json.Delim('{') {
		n = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	}
	for d.More() {
		v, err := readValue(d)
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, v)
	}
	_, err = d.Token() // the closing one
	return n, err
}

// writeJSON is the opposite of readJSON.
func writeJSON(n *yaml.Node) string {
	var list []string
	switch {
	case n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			list = append(list, writeJSON(n.Content[i])+": "+writeJSON(n.Content[i+1]))
		}
		return "{" + strings.Join(list, ", ") + "}"
	case n.Kind == yaml.SequenceNode:
		for _, c := range n.Content {
			list = append(list, writeJSON(c))
		}
		return "[" + strings.Join(list, ", ") + "]"
	case n.Tag == "!!str":
		return string(tool.EncodeJSON(n.Value))
	}
	return n.Value
}

// schemaOf is the JSON Schema of a sample.
func schemaOf(n *yaml.Node) *yaml.Node {
	switch {
	case n.Kind == yaml.SequenceNode && len(n.Content) > 0:
		return mapping(yaml.FlowStyle, "type", "array", "items", schemaOf(n.Content[0]))
	case n.Kind == yaml.SequenceNode:
		return mapping(yaml.FlowStyle, "type", "array")
	case n.Kind == yaml.MappingNode:
		properties := mapping(yaml.FlowStyle)
		for i := 0; i+1 < len(n.Content); i += 2 {
			properties.Content = append(properties.Content, text(n.Content[i].Value), schemaOf(n.Content[i+1]))
		}
		return mapping(yaml.FlowStyle, "type", "object", "properties", orNil(properties))
	}
	return mapping(yaml.FlowStyle, "type", typeOf(n))
}

func typeOf(n *yaml.Node) string {
	switch n.Tag {
	case "!!int":
		return "integer"
	case "!!float":
		return "number"
	case "!!bool":
		return "boolean"
	}
	return "string"
}
