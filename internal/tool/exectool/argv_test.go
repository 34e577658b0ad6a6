//go:build unix

package exectool

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/tool"
	"github.com/toolgate/toolgate/internal/tool/tooltest"
)

func TestArguments(t *testing.T) {
	tests := []struct {
		name    string
		command []string
		value   any // of the argument v
		want    []string
	}{
		{"a plain one", []string{"{v}"}, "Ann", []string{"Ann"}},
		{"blanks don't split", []string{"{v}"}, " a  b\tc\n", []string{" a  b\tc\n"}},
		{"quotes are characters", []string{"{v}"}, `"a" 'b' \c`, []string{`"a" 'b' \c`}},
		{"there is no shell", []string{"{v}"}, "$HOME `id` $(id); rm -rf / | cat > x & * ~", []string{"$HOME `id` $(id); rm -rf / | cat > x & * ~"}},
		{"an empty one is an argument", []string{"{v}", "x"}, "", []string{"", "x"}},
		{"placeholders in a value are text", []string{"{v}"}, "{w}{{v}}${HOME}", []string{"{w}{{v}}${HOME}"}},
		{"bytes that are no UTF-8", []string{"{v}"}, "\xff\xfe", []string{"\xff\xfe"}},
		{"a large number", []string{"{v}"}, json.Number("9007199254740993"), []string{"9007199254740993"}},
		{"a boolean", []string{"{v}"}, true, []string{"true"}},
		{"a list is one argument", []string{"{v}"}, []any{"a", json.Number("1")}, []string{`["a",1]`}},
		{"text around it", []string{"--name={v}.txt"}, "a b", []string{"--name=a b.txt"}},
		{"an option's value may begin with -", []string{"--name={v}", "-n{v}"}, "-x", []string{"--name=-x", "-n-x"}},
		{"- inside is no option", []string{"{v}"}, "a -x", []string{"a -x"}},
		{"null drops its item", []string{"a", "{v}", "--v={v}", "b"}, nil, []string{"a", "b"}},
		{"the file's own options stay", []string{"-l", "--", "-", "", "{{v}}"}, "x", []string{"-l", "--", "-", "", "{v}"}},
		{"the call's own", []string{"{run_id}/{idempotency_key}", "{caller.level}"}, "x", []string{"run_1/tg_1", "2"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			made := printer(t, "argv", tt.command...).make(t, "v?", "w?")
			got, err := made.Call(t.Context(), tool.Call{
				Args: map[string]any{"v": tt.value}, Caller: map[string]any{"level": 2}, RunID: "run_1", IdempotencyKey: "tg_1",
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, items(got.Text)); diff != "" {
				t.Errorf("argv (-want +got)\n%s", diff)
			}
		})
	}
}

func TestAbsentArgumentsDropTheirItems(t *testing.T) {
	made := printer(t, "argv", "a", "{v}", "--both={v}{w}", "{idempotency_key}", "{w}").make(t, "v?", "w")
	if diff := cmp.Diff([]string{"a", "x"}, items(output(t, made, map[string]any{"w": "x"}))); diff != "" {
		t.Errorf("argv (-want +got)\n%s", diff)
	}
}

func TestArgumentsThatAreRefused(t *testing.T) {
	tests := []struct {
		name, item, v, w string
		want             string // in the message; "" for a failure that is not the model's
	}{
		{"a long option", "{v}", "--version", "", "argument v: must not begin with -"},
		{"a short option", "{v}", "-rf", "", "argument v: must not begin with -"},
		{"the name of stdin", "{v}", "-", "", "argument v: must not begin with -"},
		{"the end of options", "{v}", "--", "", "argument v: must not begin with -"},
		{"an option that the file's text completes", "{v}out=/etc/passwd", "--", "", "argument v: must not begin with -"},
		{"an option behind an empty value", "{v}{w}", "", "-x", "argument v, w: must not begin with -"},
		{"a text of the file that becomes an option behind an empty value", "{v}-x", "", "", "argument v: must not begin with -"},
		{"NUL", "{v}", "a\x00b", "", "argument v: must not hold a NUL character"},
		{"NUL behind text", "--name={v}", "\x00", "", "argument v: must not hold a NUL character"},
		{"an option in a bound argument", "{bound}", "", "", ""},
		{"an option in a field of the caller", "{caller.bad}", "", "", ""},
		{"a field that the caller lacks", "--level={caller.level}", "", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, s, problems := tooltest.Read(t, Kind, printer(t, "argv", tt.item).yaml(), "v", "w", "bound")
			if problems != nil {
				t.Fatal(problems)
			}
			s.Params["bound"] = tool.Param{Bound: true}
			e := newElement(nil, tt.item, s)
			c.(*Config).plan.args = []element{e}
			made, err := c.Build(s, tool.Env{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = made.Call(t.Context(), tool.Call{
				Args: map[string]any{"v": tt.v, "w": tt.w, "bound": "-b"}, Caller: map[string]any{"bad": "-x"},
			})
			got, ok := errors.AsType[*tool.Error](err)
			switch {
			case !ok:
				t.Fatalf("Call() = %v, want a *tool.Error", err)
			case tt.want == "" && (got.Class != tool.Failed || got.Message != ""):
				t.Errorf("error %v with message %q, want class %s without one", got, got.Message, tool.Failed)
			case tt.want != "" && (got.Class != tool.Business || got.Message != tt.want):
				t.Errorf("error %v with message %q, want class %s with %q", got, got.Message, tool.Business, tt.want)
			}
		})
	}
}

func TestArgumentsThatAreTooLong(t *testing.T) {
	made := printer(t, "argv", "{v}").make(t, "v")
	_, err := made.Call(t.Context(), tool.Call{Args: map[string]any{"v": strings.Repeat("x", 16<<20)}})
	got, ok := errors.AsType[*tool.Error](err)
	if !ok || got.Class != tool.Business || got.Message != "the arguments are too long for a command" {
		t.Errorf("Call() = %v, want the model told that it is too long", err)
	}
}

// FuzzArgument: any value arrives as exactly one argument, unchanged, behind an option as well; if it can't, the call is
// refused and nothing runs.
func FuzzArgument(f *testing.F) {
	for _, s := range []string{
		"", " ", "a b", "-", "--x", "\x00", "a\x00b", "$HOME", "`id`", "'\"\\", "\n", "{v}", "\xff", "é", "*", "~", "; rm -rf /", "--v=-", "=", "%s",
	} {
		f.Add(s)
	}
	settings := printer(f, "argv", "first", "{v}", "--v={v}", "last")
	f.Fuzz(func(t *testing.T, v string) {
		made := settings.make(t, "v")
		if len(v) > 64<<10 {
			t.Skip("systems limit the length of an argument")
		}
		got, err := made.Call(t.Context(), tool.Call{Args: map[string]any{"v": v}})
		if strings.HasPrefix(v, "-") || strings.Contains(v, "\x00") {
			tooltest.WantError(t, err, tool.Business, "")
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"first", v, "--v=" + v, "last"}, items(got.Text)); diff != "" {
			t.Errorf("argv (-want +got)\n%s", diff)
		}
	})
}
