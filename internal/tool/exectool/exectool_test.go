//go:build unix

package exectool

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/tool"
	"github.com/toolgate/toolgate/internal/tool/tooltest"
)

// printsVar makes the test binary a program that prints what a program is given: its argv or its environment, each item
// with a NUL behind it.
const printsVar = "EXECTOOL_PRINTS"

func TestMain(m *testing.M) {
	switch os.Getenv(printsVar) {
	case "argv":
		printItems(os.Args[1:])
	case "env":
		printItems(os.Environ())
	default:
		goleak.VerifyTestMain(m)
	}
}

func printItems(items []string) {
	for _, item := range items {
		fmt.Print(item, "\x00")
	}
	syscall.Exit(0) // not by way of os.Exit, in which the race detector waits for a second
}

// items is what printItems has printed.
func items(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\x00"), "\x00")
}

// printer is the test binary as a tool that prints what it is given.
func printer(t testing.TB, what string, args ...string) settings {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return settings{"command": append([]string{self}, args...), "env": map[string]string{printsVar: what}}
}

// script is a shell script as a tool; body sees args as $1, $2 and so on.
func script(t testing.TB, body string, args ...string) settings {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tool.sh")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return settings{"command": append([]string{path}, args...), "env": map[string]string{"PATH": "/usr/bin:/bin"}}
}

// settings is the `exec` part of a tool.
type settings map[string]any

// yaml is the settings as a document; JSON is YAML.
func (s settings) yaml() string {
	return string(tool.EncodeJSON(map[string]any{"exec": map[string]any(s)}))
}

func (s settings) make(t *testing.T, params ...string) tool.Tool {
	t.Helper()
	return tooltest.Make(t, Kind, tool.Env{}, s.yaml(), params...)
}

// output is the result of a call that has to go well.
func output(t *testing.T, made tool.Tool, args map[string]any) string {
	t.Helper()
	got, err := made.Call(t.Context(), tool.Call{Args: args})
	if err != nil {
		t.Fatal(err)
	}
	return got.Text
}

func TestFilesThatCannotWork(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tooltest.CheckRefuses(t, Kind, []tooltest.Refuses{
		{Name: "no command", YAML: `exec: {}`, Want: "exec.command: want a list of the program and its arguments"},
		{Name: "an empty command", YAML: `exec: {command: []}`, Want: "exec.command: want a list of the program and its arguments"},
		{Name: "a command line for a shell", YAML: `exec: {command: ls -l}`, Want: "exec.command: want a list"},
		{Name: "an empty program", YAML: `exec: {command: [""]}`, Want: "exec.command.0: want the program to run"},
		{Name: "the model chooses the program", YAML: `exec: {command: ["{name}"]}`, Params: []string{"name"}, Want: "exec.command.0: a placeholder can't stand in the program"},
		{Name: "the model chooses a part of the program", YAML: `exec: {command: ["/bin/{name}"]}`, Params: []string{"name"}, Want: "a placeholder can't stand in the program"},
		{Name: "the caller chooses the program", YAML: `exec: {command: ["{caller.x}"]}`, Want: "a placeholder can't stand in the program"},
		{Name: "a program that is not in PATH", YAML: `exec: {command: [no-such-program-anywhere]}`, Want: "1:18: exec.command.0: there is no such program in the gateway's PATH"},
		{Name: "a path to nothing", YAML: `exec: {command: [/no/such/program]}`, Want: "exec.command.0: there is no such program"},
		{Name: "a relative path to nothing", YAML: `exec: {command: [./program]}`, Want: "exec.command.0: there is no such program"},
		{Name: "a file that may not be executed", YAML: `exec: {command: [` + plain + `]}`, Want: "exec.command.0: the program may not be executed"},
		{Name: "a folder", YAML: `exec: {command: [/]}`, Want: "exec.command.0: "},
		{Name: "a name that is no parameter", YAML: `exec: {command: [cat, "{naem}"]}`, Params: []string{"name"}, Want: "exec.command.1: {naem} names no parameter: did you mean {name}?"},
		{Name: "a caller without a field", YAML: `exec: {command: [cat, "{caller}"]}`, Want: "want {caller.FIELD}"},
		{Name: "a value that names the option", YAML: `exec: {command: [cat, "--{name}"]}`, Params: []string{"name"}, Want: `exec.command.1: a value right after "--" would choose the option`},
		{Name: "a value that is a short option", YAML: `exec: {command: [cat, "-{name}=x"]}`, Params: []string{"name"}, Want: `a value right after "-" would choose the option`},
		{Name: "NUL in an argument", YAML: `exec: {command: [cat, "a\0b"]}`, Want: "exec.command.1: an argument can't hold a NUL character"},
		{Name: "NUL in the program", YAML: `exec: {command: ["cat\0"]}`, Want: "exec.command.0: "},
		{Name: "no text as an argument", YAML: `exec: {command: [cat, [a]]}`, Want: "exec.command.1: want a text"},
		{Name: "a folder that is none", YAML: `exec: {command: [cat], dir: /no/such}`, Want: "exec.dir: there is no such folder"},
		{Name: "a file as the folder", YAML: `exec: {command: [cat], dir: ` + plain + `}`, Want: "exec.dir: there is no such folder"},
		{Name: "a variable without a name", YAML: `exec: {command: [cat], env: {"": x}}`, Want: "this is no name of a variable"},
		{Name: "a variable whose name ends early", YAML: `exec: {command: [cat], env: {"A=B": x}}`, Want: "exec.env.A=B: this is no name of a variable"},
		{Name: "a variable without a value", YAML: `exec: {command: [cat], env: {PATH: }}`, Want: "exec.env.PATH: want a text"},
		{Name: "NUL in a variable", YAML: `exec: {command: [cat], env: {A: "x\0y"}}`, Want: "a variable can't hold a NUL character"},
		{Name: "the gateway's variable", YAML: `exec: {command: [cat], env: {IDEMPOTENCY_KEY: x}}`, Want: "exec.env.IDEMPOTENCY_KEY: the gateway sets this variable itself"},
		{Name: "another stdin", YAML: `exec: {command: [cat], stdin: yaml}`, Want: "exec.stdin: want one of json, none"},
		{Name: "an unknown key", YAML: `exec: {command: [cat], shell: true}`, Want: "shell"},
	})
}

func TestUnusedParametersAreWarnedOf(t *testing.T) {
	for _, tt := range []struct{ name, yaml, want string }{
		{"all are read from stdin", `{command: [cat]}`, ""},
		{"all are used", `{command: [cat, "{id}", "--x={title}{run_id}"], stdin: none}`, `parameter "run_id" is not used: {run_id} is the gateway's own`},
		{"one is not used", `{command: [cat, "{id}"], stdin: none}`, `parameter "title" is not used`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := config.Parse("tool.yaml", t.TempDir(), []byte(tt.yaml), noVariables)
			c := &Config{}
			f.Root().Decode(c)
			c.Check(f.Root(), tool.Spec{Params: map[string]tool.Param{"id": {}, "title": {}, "run_id": {}}})
			if p := f.Problems(); p != nil {
				t.Fatal(p)
			}
			if got := f.Warnings().Error(); (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
				t.Errorf("warnings %q, want %q", got, tt.want)
			}
		})
	}
}

func noVariables(string) (string, bool) { return "", false }

func TestWhatOthersAskOfAConfig(t *testing.T) {
	c, _, problems := tooltest.Read(t, Kind, `exec: {command: [cat, "{caller.z}", "{caller.a}/{caller.z}", "{id}"]}`, "id")
	if problems != nil {
		t.Fatal(problems)
	}
	if got := c.DefaultEffect(); got != tool.Write {
		t.Errorf("DefaultEffect() = %s, want write", got)
	}
	if got := c.Hosts(); got != nil {
		t.Errorf("Hosts() = %v, want none", got)
	}
	if diff := cmp.Diff([]string{"a", "z"}, c.(*Config).CallerFields()); diff != "" {
		t.Errorf("CallerFields() (-want +got)\n%s", diff)
	}
	if got := new(Config).CallerFields(); got != nil {
		t.Errorf("CallerFields() before Check = %v, want none", got)
	}
	if _, err := new(Config).Build(tool.Spec{}, tool.Env{}); err == nil {
		t.Error("Build() before Check is no error")
	}
}

// The file's folder, not that of the gateway's process, is where paths of the file start.
func TestPathsStartFromTheFolderOfTheFile(t *testing.T) {
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(folder, "bin", "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "bin", "where"), []byte("#!/bin/sh\npwd -P\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, yaml, want string }{
		{"the folder of the file by default", `{command: [bin/where]}`, folder},
		{"a relative one", `{command: [./bin/where], dir: bin/data}`, filepath.Join(folder, "bin", "data")},
		{"an absolute one", `{command: [bin/../bin/where], dir: ` + filepath.Join(folder, "bin") + `}`, filepath.Join(folder, "bin")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := config.Parse("tool.yaml", folder, []byte(tt.yaml), noVariables)
			c := &Config{}
			f.Root().Decode(c)
			c.Check(f.Root(), tool.Spec{})
			if p := f.Problems(); p != nil {
				t.Fatal(p)
			}
			made, err := c.Build(tool.Spec{}, tool.Env{})
			if err != nil {
				t.Fatal(err)
			}
			if got := output(t, made, nil); got != tt.want {
				t.Errorf("it ran in %s, want %s", got, tt.want)
			}
		})
	}
}

func TestTheProgramIsFixedWhenTheFileIsRead(t *testing.T) {
	folders := []string{t.TempDir(), t.TempDir()}
	for i, folder := range folders {
		if err := os.WriteFile(filepath.Join(folder, "which-one"), fmt.Appendf(nil, "#!/bin/sh\necho %d\n", i), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", folders[0])
	made := settings{"command": []string{"which-one"}}.make(t)
	t.Setenv("PATH", folders[1])
	if got := output(t, made, nil); got != "0" {
		t.Errorf("program %s ran, want the one that the file was checked with", got)
	}
}

func TestEnvironmentIsClosed(t *testing.T) {
	t.Setenv("HIDDEN", "not for tools")
	settings := printer(t, "env")
	settings["env"] = map[string]string{printsVar: "env", "SHOWN": "{name} $HIDDEN", "EMPTY": ""}
	made := settings.make(t, "name")
	want := map[string]bool{printsVar + "=env": true, "SHOWN={name} $HIDDEN": true, "EMPTY=": true}
	for _, key := range []string{"", "tg_1", ""} { // the last shows that no key stays behind
		got, err := made.Call(t.Context(), tool.Call{Args: map[string]any{"name": "x"}, IdempotencyKey: key})
		if err != nil {
			t.Fatal(err)
		}
		want := maps.Clone(want)
		if key != "" {
			want["IDEMPOTENCY_KEY="+key] = true
		}
		seen := map[string]bool{}
		for _, v := range items(got.Text) {
			seen[v] = true
		}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("environment with key %q (-want +got)\n%s", key, diff)
		}
	}
}

// A nil environment would be the gateway's own to package exec.
func TestNoEnvironmentIsAnEmptyOne(t *testing.T) {
	for _, yaml := range []string{`exec: {command: [env]}`, `exec: {command: [env], env: {}}`} {
		if got := output(t, tooltest.Make(t, Kind, tool.Env{}, yaml), nil); got != "" {
			t.Errorf("%s: environment %q, want none", yaml, got)
		}
	}
}

func TestStdin(t *testing.T) {
	args := map[string]any{"b": "<é>\n", "a": json.Number("9007199254740993"), "none": nil}
	tests := []struct {
		name, stdin string
		args        map[string]any
		want        string
	}{
		{"the arguments as JSON", "json", args, `{"a":9007199254740993,"b":"<é>\n","none":null}`},
		{"no arguments are an empty object", "json", map[string]any{}, "{}"},
		{"nor are absent ones null", "json", nil, "{}"},
		{"nothing", "none", args, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			made := settings{"command": []string{"cat"}, "stdin": tt.stdin}.make(t, "a", "b", "none?")
			if got := output(t, made, tt.args); got != tt.want {
				t.Errorf("stdin is %q, want %q", got, tt.want)
			}
		})
	}
}

// Nobody has to read stdin: the broken pipe is the gateway's business.
func TestStdinMayBeLeftUnread(t *testing.T) {
	large := map[string]any{"text": strings.Repeat("x", 1<<20)}
	for name, body := range map[string]string{
		"not at all": "echo done",
		"in part":    "head -c 10 >/dev/null; echo done",
		"closed":     "exec <&-; sleep 0.05; echo done",
	} {
		t.Run(name, func(t *testing.T) {
			if got := output(t, script(t, body).make(t, "text"), large); got != "done" {
				t.Errorf("result %q, want done", got)
			}
		})
	}
	_, err := script(t, "exit 3").make(t, "text").Call(t.Context(), tool.Call{Args: large})
	tooltest.WantError(t, err, tool.ExitError, tool.TypeExit)
}

func TestManyAtOnce(t *testing.T) {
	made := script(t, `read -r line; printf '%s %s' "$1" "$line"`, "{n}").make(t, "n")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const calls = 60
	faults := make(chan string, calls)
	for i := range calls {
		go func() {
			n := fmt.Sprint(i)
			got, err := made.Call(ctx, tool.Call{Args: map[string]any{"n": n}, IdempotencyKey: n})
			if want := n + ` {"n":"` + n + `"}`; err != nil || got.Text != want {
				faults <- fmt.Sprintf("Call(%s) = %q, %v, want %q", n, got.Text, err, want)
				return
			}
			faults <- ""
		}()
	}
	for range calls {
		if f := <-faults; f != "" {
			t.Error(f)
		}
	}
}
