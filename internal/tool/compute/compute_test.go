package compute

import (
	"encoding/json"
	"testing"

	"github.com/toolgate/toolgate/internal/tool"
	"github.com/toolgate/toolgate/internal/tool/tooltest"
)

func TestExpressions(t *testing.T) {
	args := map[string]any{
		"subtotal": json.Number("10.1"), "rate": json.Number("0.19"), "n": json.Number("7"), "name": "Ann",
		"list": []any{json.Number("1"), json.Number("2.5")}, "big": json.Number("9007199254740993"),
	}
	params := []string{"subtotal", "rate", "n", "name", "list", "big", "note?"}
	for code, want := range map[string]string{
		"round(subtotal * rate, 2)":         "1.92",
		"round(1.005, 2)":                   "1.01",
		"round(-2.5)":                       "-3",
		"round(1234.5, -2)":                 "1200",
		"n + 1":                             "8",
		"big + 0":                           "9007199254740993",
		"n / 2":                             "3.5",
		"1e21 + 0":                          "1000000000000000000000",
		`name + ", " + (note ?? "no note")`: "Ann, no note",
		"sum(list)":                         "3.5",
		`{"total": n * 2, "text": "<b>"}`:   `{"text":"<b>","total":14}`,
		"n > 5 ? 'many' : 'few'":            "many",
		"n in [5, 7]":                       "true",
		`len(filter(list, # > 2))`:          "1",
		`string(n) + "%"`:                   "7%",
		`name matches "^A" and not (name contains "x")`:         "true",
		`date("2026-03-01").Year() - date("2020-03-01").Year()`: "6",
	} {
		got, err := tooltest.Make(t, Kind, tool.Env{}, "compute: "+string(tool.EncodeJSON(code)), params...).Call(t.Context(), tool.Call{Args: args})
		if err != nil || got.Text != want {
			t.Errorf("%s = %q, %v; want %q", code, got.Text, err, want)
		}
	}
}

func TestExpressionsThatFailSayNoMoreThanTheirType(t *testing.T) {
	for code, class := range map[string]tool.Class{
		"n + name": tool.Failed, "1 / 0": tool.InvalidResult, `int("x")`: tool.Failed, "list[9]": tool.Failed, "len(1..100000000)": tool.Failed, "round(name)": tool.Failed,
	} {
		args := map[string]any{"n": json.Number("1"), "name": "x", "list": []any{}}
		_, err := tooltest.Make(t, Kind, tool.Env{}, "compute: "+string(tool.EncodeJSON(code)), "n", "name", "list").Call(t.Context(), tool.Call{Args: args})
		t.Run(code, func(t *testing.T) { tooltest.WantError(t, err, class, TypeCompute) })
	}
}

func TestFilesThatCannotWork(t *testing.T) {
	tooltest.CheckRefuses(t, Kind, []tooltest.Refuses{
		{Name: "no expression", YAML: "compute: ''", Want: "want an expression"},
		{Name: "a name that is no parameter", YAML: "compute: a + b", Want: "unknown name b", Params: []string{"a"}},
		{Name: "a broken one", YAML: "compute: 1 +", Want: "is no expression"},
		{Name: "a function that is not there", YAML: "compute: system('x')", Want: "unknown name system"},
		{Name: "the time of day, which is no function of the arguments", YAML: "compute: now()", Want: "unknown name now"},
	})
}
