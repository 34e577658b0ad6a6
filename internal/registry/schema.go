package registry

import (
	"encoding/json"

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
		common.Properties[k.Name] = config.SchemaOf(k.New())
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
