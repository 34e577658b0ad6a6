package registry

import (
	"encoding/json"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/tool"
)

// ConfigSchema is the JSON Schema of the mapping `tools`: the keys of every kind, beside exactly one of the kinds.
func ConfigSchema(kinds []tool.Kind) any {
	var common struct {
		Properties map[string]any `json:"properties"`
	}
	if err := json.Unmarshal(config.SchemaOf(Config{}), &common); err != nil {
		return true // it is the gateway's own and always decodes
	}
	var choices []any
	for _, k := range kinds {
		common.Properties[k.Name] = described(config.SchemaOf(k.New()), k.Doc)
		choices = append(choices, map[string]any{"required": []string{k.Name}})
	}
	return map[string]any{
		"type":          "object",
		"description":   "Tools, by name.",
		"propertyNames": map[string]any{"pattern": toolName.String()},
		"additionalProperties": map[string]any{
			"type":                 "object",
			"properties":           common.Properties,
			"required":             []string{"description"},
			"oneOf":                choices,
			"additionalProperties": false,
		},
	}
}

// described is a schema with a description, where it has none.
func described(schema json.RawMessage, doc string) json.RawMessage {
	if gjson.GetBytes(schema, "description").Exists() {
		return schema
	}
	if with, err := sjson.SetBytes(schema, "description", doc); err == nil {
		return with
	}
	return schema
}
