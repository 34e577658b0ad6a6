package placeholder

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/tool"
)

var call = tool.Call{
	Args: map[string]any{
		"cep":    "01001-000",
		"n":      json.Number("9007199254740993"),
		"price":  json.Number("1.10"),
		"yes":    true,
		"tags":   []any{"<a>", json.Number("2")},
		"none":   nil,
		"evil":   `a/../b?c#d"&\`,
		"user-x": "u",
		"$top":   json.Number("3"),
		"região": "Sul",
	},
	Caller:         map[string]any{"level": 2, "id": "web"},
	RunID:          "run_1",
	IdempotencyKey: "key_1",
}

func TestExpand(t *testing.T) {
	tests := []struct {
		name, text, want string
		missing          bool
	}{
		{"text without braces stays", "plain text", "plain text", false},
		{"empty text stays empty", "", "", false},
		{"an argument", "CEP {cep}!", "CEP 01001-000!", false},
		{"a large number keeps its digits", "{n}", "9007199254740993", false},
		{"a fraction keeps its spelling", "{price}", "1.10", false},
		{"a boolean", "{yes}", "true", false},
		{"a list is JSON, its characters unescaped", "{tags}", `["<a>",2]`, false},
		{"null is missing", "[{none}]", "[]", true},
		{"an absent argument is missing", "[{nope}]", "[]", true},
		{"a field of the caller", "{caller.level}/{caller.id}", "2/web", false},
		{"a field that the caller lacks is missing", "{caller.nope}", "", true},
		{"the call's own", "{run_id} {idempotency_key}", "run_1 key_1", false},
		{"names with other characters", "{user-x}{$top}{região}", "u3Sul", false},
		{"doubled braces around a name are literal", "{{cep}} {{caller.id}}", "{cep} {caller.id}", false},
		{"doubled braces elsewhere stay", "{{ cep }} {{}} }}", "{{ cep }} {{}} }}", false},
		{"a literal in braces of its own", "{{{cep}}}", "{{cep}}", false},
		{"one closing brace is no escape", "{{cep}", "{01001-000", false},
		{"closing braces of JSON after a placeholder stay", `{"a":{"b":{n}}}`, `{"a":{"b":9007199254740993}}`, false},
		{"braces that start no placeholder are literal", `{"a": 1} \d{8} {} { cep } {cep`, `{"a": 1} \d{8} {} { cep } {cep`, false},
		{"bytes that are no UTF-8 stay", "{\xff} \xff{cep}", "{\xff} \xff01001-000", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tmpl, err := Parse(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			got, missing := tmpl.Expand(call, nil)
			if got != tt.want || missing != tt.missing {
				t.Errorf("Expand(%q) = %q, %t, want %q, %t", tt.text, got, missing, tt.want, tt.missing)
			}
		})
	}
}

func TestExpandEscapesValuesAlone(t *testing.T) {
	tmpl, err := Parse("<{cep}/{evil}>")
	if err != nil {
		t.Fatal(err)
	}
	got, _ := tmpl.Expand(call, strings.ToUpper)
	if want := `<01001-000/A/../B?C#D"&\>`; got != want {
		t.Errorf("Expand() = %q, want %q", got, want)
	}
}

func TestParseRefusesACallerWithoutAField(t *testing.T) {
	for _, text := range []string{"{caller.}", "x {caller} y"} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), "{caller.FIELD}") {
			t.Errorf("Parse(%q) = %v, want an error that says {caller.FIELD}", text, err)
		}
	}
}

func TestNames(t *testing.T) {
	tmpl, err := Parse("{b}{a}{b}{caller.y}{caller.x}{caller.y}{run_id}{idempotency_key}{{c}}")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"b", "a"}, tmpl.Names()); diff != "" {
		t.Errorf("Names() (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"y", "x"}, tmpl.CallerFields()); diff != "" {
		t.Errorf("CallerFields() (-want +got)\n%s", diff)
	}
	if tmpl.Static() {
		t.Error("Static() = true for a template with placeholders")
	}
}

func TestCheckNamesTheNearestParameter(t *testing.T) {
	params := []string{"id", "title"}
	tmpl, err := Parse("{idd} {title} {zzzzzz} {caller.any} {run_id}")
	if err != nil {
		t.Fatal(err)
	}
	got := tmpl.Check(func(name string) bool { return slices.Contains(params, name) }, params...)
	want := []string{"{idd} names no parameter: did you mean {id}?", "{zzzzzz} names no parameter: the known ones are id, title"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Check() (-want +got)\n%s", diff)
	}
}

func TestLoneKeepsTheType(t *testing.T) {
	tests := []struct {
		text string
		want any
		lone bool
	}{
		{"{tags}", []any{"<a>", json.Number("2")}, true},
		{"{caller.level}", 2, true},
		{"{run_id}", "run_1", true},
		{" {tags}", nil, false},
		{"tags", nil, false},
		{"{{tags}}", nil, false},
		{"", nil, false},
	}
	for _, tt := range tests {
		tmpl, err := Parse(tt.text)
		if err != nil {
			t.Fatal(err)
		}
		p, lone := tmpl.Lone()
		if lone != tt.lone {
			t.Errorf("Lone(%q) = %t, want %t", tt.text, lone, tt.lone)
			continue
		}
		if !lone {
			continue
		}
		got, ok := p.Value(call)
		if diff := cmp.Diff(tt.want, got); diff != "" || !ok {
			t.Errorf("Value(%q) ok %t (-want +got)\n%s", tt.text, ok, diff)
		}
	}
}

func TestNilTemplateIsEmpty(t *testing.T) {
	var tmpl *Template
	if text, missing := tmpl.Expand(call, nil); text != "" || missing || !tmpl.Static() || tmpl.Names() != nil {
		t.Errorf("nil Template: %q, %t", text, missing)
	}
}
