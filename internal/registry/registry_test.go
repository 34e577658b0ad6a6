package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/globs"
	"github.com/toolgate/toolgate/internal/mask"
	"github.com/toolgate/toolgate/internal/schema"
	"github.com/toolgate/toolgate/internal/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// call is what a fake tool does.
type call func(context.Context, tool.Call) (tool.Result, error)

func (f call) Call(ctx context.Context, c tool.Call) (tool.Result, error) { return f(ctx, c) }

// fake is a kind of tool made of a function.
type fake struct {
	do    call
	hosts []string
}

func (*fake) DecodeNode(*config.Node)                        {}
func (*fake) DefaultEffect() tool.Effect                     { return tool.Read }
func (*fake) Check(*config.Node, tool.Spec)                  {}
func (f *fake) Hosts() []string                              { return f.hosts }
func (f *fake) Build(tool.Spec, tool.Env) (tool.Tool, error) { return f.do, nil }

func kindsOf(do call) []tool.Kind {
	return []tool.Kind{
		{Name: "fake", New: func() tool.Config { return &fake{do: do, hosts: []string{"api.internal"}} }},
		{Name: "other", New: func() tool.Config { return &fake{do: do} }},
	}
}

func definitions(t *testing.T, yaml string, do call) (*Definitions, *config.File) {
	t.Helper()
	f := config.Parse("tools.yaml", ".", []byte(yaml), func(string) (string, bool) { return "", false })
	return Read(f.Root(), kindsOf(do), nil), f
}

func newSet(t *testing.T, yaml string, do call, change ...func(*Options)) *Set {
	t.Helper()
	d, f := definitions(t, yaml, do)
	if p := f.Problems(); p != nil {
		t.Fatal(p)
	}
	o := Options{Definitions: d, Logger: slog.New(slog.DiscardHandler), Metrics: NewMetrics(prometheus.NewRegistry()), Mask: mask.New([]string{"s3cr3t"})}
	for _, c := range change {
		c(&o)
	}
	s, err := NewSet(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestReadRefuses(t *testing.T) {
	for _, tt := range []struct{ name, yaml, want string }{
		{"no kind", "a: {description: A.}", "a: want what the tool does: one of fake, other"},
		{"two kinds", "a: {description: A., fake: x, other: x}", "a.other: stands beside fake"},
		{"no description", "a: {fake: x}", "description is missing"},
		{"a name that models can't call", "a b: {description: A., fake: x}", `"a b" is no name for a tool`},
		{"a list of tools", "[{name: a}]", "want a mapping of tool names"},
		{"a misspelt key", "a: {descripton: A., fake: x}", `did you mean "description"?`},
		{"a kind that is misspelt", "a: {description: A., fak: x}", `did you mean "fake"?`},
		{"retry of a write", "a: {description: A., effect: write, retry: 1, fake: x}", "idempotent: true"},
		{"an errors key that no failure has", "a: {description: A., errors: {6xx: no}, fake: x}", "want a status such as 404"},
		{"an errors message without text", "a: {description: A., errors: {404: {code: x}}, fake: x}", "want a message"},
		{"an errors code with blanks", "a: {description: A., errors: {404: {code: Not Found, message: no}}, fake: x}", "short code"},
		{"an errors placeholder that is no parameter", "a: {description: A., parameters: {cep: string}, errors: {404: 'no {cpe}'}, fake: x}", `cpe`},
		{"a result beside a message", "a: {description: A., errors: {404: {message: x, result: {}}}, fake: x}", "take code and message away"},
		{"a bound argument that is no parameter", "a: {description: A., parameters: {level: integer}, bind: {levl: caller.level}, fake: x}", `did you mean "level"?`},
		{"a binding that is no source", "a: {description: A., parameters: {level: integer}, bind: {level: level}, fake: x}", "want caller.NAME"},
		{"confirm by nobody that there is", "a: {description: A., confirm: boss, fake: x}", "user, approval"},
		{"confirmed by nobody that is known", "a: {description: A., fake: x, confirm: boss}", "a.confirm: want none, user, approval, or a mapping such as {by: approval, after: untrusted}"},
		{"confirmed by a list", "a: {description: A., fake: x, confirm: [user]}", "a.confirm: want none, user, approval, or a mapping"},
		{"by nobody that is known", "a: {description: A., effect: write, fake: x, confirm: {by: users, after: untrusted}}", `a.confirm.by: want one of none, user, approval, got "users": did you mean "user"?`},
		{"after what is unknown", "a: {description: A., effect: write, fake: x, confirm: {by: user, after: taint}}", `a.confirm.after: want one of untrusted, got "taint"`},
		{"after untrusted by nobody", "a: {description: A., effect: write, fake: x, confirm: {after: untrusted}}", "a.confirm: after says when somebody confirms, and nobody does: want by: user or by: approval"},
		{"a read that is confirmed after untrusted", "a: {description: A., fake: x, confirm: {by: user, after: untrusted}}", "a.confirm: only a write is confirmed after untrusted"},
		{"a key of confirm that is unknown", "a: {description: A., effect: write, fake: x, confirm: {by: user, if: untrusted}}", `unknown key "if"`},
		{"untrusted that is neither true nor false", "a: {description: A., fake: x, untrusted: maybe}", "a.untrusted: want true or false"},
		{"cache of a write", "a: {description: A., effect: write, cache: 1m, fake: x}", "only a read can be cached"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, f := definitions(t, tt.yaml, nil)
			if p := f.Problems(); p == nil || !strings.Contains(p.Error(), tt.want) {
				t.Errorf("problems = %v, want %q", p, tt.want)
			}
		})
	}
}

func TestChecksOfTheWholeFile(t *testing.T) {
	d, f := definitions(t, `
a: {description: Asks api.internal for it., fake: x}
b: {description: Uses s3cr3t-key., fake: x}
c: {description: Fine., fake: x, timeout: 40s, retry: 1}
`, nil)
	d.CheckSecrets([]string{"s3cr3t-key"})
	d.CheckTime(time.Minute)
	problems := f.Problems().Error()
	for _, want := range []string{":2:", "names the tool's own host", ":3:", "holds a configured secret"} {
		if !strings.Contains(problems, want) {
			t.Errorf("problems lack %q: %s", want, problems)
		}
	}
	if strings.Contains(problems, "s3cr3t-key") {
		t.Errorf("problems show the secret: %s", problems)
	}
	if w := f.Warnings(); len(w) != 1 || !strings.Contains(w.Error(), "1m20") {
		t.Errorf("warnings = %v, want one of c's 80 seconds and more", w)
	}
}

const viewTools = `
zeta: {description: Z., fake: x}
alpha: {description: A., fake: x, parameters: {q: string, user: string}, bind: {user: caller.id}}
mike: {description: M., fake: x}
`

func names(v *View) string {
	var list []string
	for _, t := range v.Tools() {
		list = append(list, t.Name)
	}
	return strings.Join(list, " ")
}

func TestViews(t *testing.T) {
	s := newSet(t, viewTools, nil)
	not := func(patterns ...string) globs.List {
		l, err := globs.Parse(patterns)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	known := map[string]any{"id": "ann"}
	all := s.View(nil, known)
	for _, tt := range []struct {
		name string
		view *View
		want string
	}{
		{"in the file's order", all, "zeta alpha mike"},
		{"what names a field that the caller lacks is not offered", s.View(nil, nil), "zeta mike"},
		{"every list has to choose a tool", s.View(nil, known, not("*", "-zeta"), not("zeta", "mike")), "mike"},
		{"narrowed, never widened", all.Narrow(not("m*")).Narrow(not("*")), "mike"},
		{"without what the client declares", all.Without(func(n string) bool { return n == "alpha" }), "zeta mike"},
		{"none", all.Narrow(not([]string{}...)), ""},
	} {
		if got := names(tt.view); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	if again := s.View(1, known); again != s.View(1, known) || names(again) != "zeta alpha mike" {
		t.Error("a view with a key is not kept")
	}
	shown := string(s.View(nil, known).Declarations())
	if strings.Contains(shown, `"user"`) || !json.Valid([]byte("["+shown+"]")) {
		t.Errorf("declarations show a bound argument or are no JSON: %s", shown)
	}
	if p := all.Narrow(not([]string{}...)).Without(func(string) bool { return false }).Prepare("functions.alpha", json.RawMessage(`{}`)); p.Tool != nil || p.Refusal.Code != NotAllowed {
		t.Errorf("a tool that the request has left out can be called: %+v", p)
	}
	// It read not_allowed, by which a client could find out what tools there are for others.
	for _, name := range []string{"alpha", "functions.alpha", "alpha()"} {
		p := s.View(nil, nil).Prepare(name, json.RawMessage(`{}`))
		none := s.View(nil, nil).Prepare(strings.ReplaceAll(name, "alpha", "alphx"), json.RawMessage(`{}`))
		if p.Tool != nil || p.Refusal.Code != UnknownTool || strings.ReplaceAll(none.Refusal.Text, "alphx", "alpha") != p.Refusal.Text || strings.ReplaceAll(none.Name, "alphx", "alpha") != p.Name {
			t.Errorf("a tool that is not for this caller: %+v, one that is not there: %+v", p, none)
		}
	}
}

func TestPrepare(t *testing.T) {
	s := newSet(t, `
find:
  description: Find.
  parameters: {q: {type: string, pattern: '^[a-z ]+$'}, n: {type: integer, default: 3}, level: integer, source: string}
  bind: {level: caller.level, source: "'chat'"}
  fake: x
strict: {description: S., parameters: {n: integer}, coerce: false, fake: x}
`, nil)
	v := s.View(nil, map[string]any{"level": json.Number("2")})
	for _, tt := range []struct{ name, tool, args, want, refusal, echo string }{
		{"completed and coerced, bound ones from the caller alone", "find", `"{\"q\":\" leave \",\"n\":\"5\",\"level\":9,\"more\":1}"`, `{"level":2,"n":5,"q":"leave","source":"chat"}`, "", `{"q":" leave ","n":"5","level":9,"more":1}`},
		{"defaults", "find", `"{\"q\":\"a\"}"`, `{"level":2,"n":3,"q":"a","source":"chat"}`, "", `{"q":"a"}`},
		{"every fault at once", "find", `"{\"q\":\"A\",\"n\":\"x\"}"`, "", "q: does not match pattern '^[a-z ]+$'; n: must be an integer", `{"q":"A","n":"x"}`},
		{"no JSON", "find", `"{'q'}"`, "", "invalid arguments for find: ", "{}"},
		{"an object in the place of a text", "find", `{"q":"a"}`, `{"level":2,"n":3,"q":"a","source":"chat"}`, "", `{"q":"a"}`},
		{"a name with a prefix", " functions.find", `"{\"q\":\"a\"}"`, `{"level":2,"n":3,"q":"a","source":"chat"}`, "", `{"q":"a"}`},
		{"an unknown name", "fnd", `"{}"`, "", `there is no tool \"fnd\"; the nearest are: find`, "{}"},
		{"no coercion", "strict", `"{\"n\":\"5\"}"`, "", "n: must be an integer, got a string", `{"n":"5"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := v.Prepare(tt.tool, json.RawMessage(tt.args))
			if tt.refusal != "" {
				if p.Tool != nil || p.Refusal == nil || !strings.Contains(p.Refusal.Text, tt.refusal) {
					t.Errorf("Prepare() = %+v, want a refusal of %q", p.Refusal, tt.refusal)
				}
			} else if p.Tool == nil || string(tool.EncodeJSON(p.args)) != tt.want {
				t.Errorf("arguments %s (%+v), want %s", tool.EncodeJSON(p.args), p.Refusal, tt.want)
			}
			if p.Echo != tt.echo {
				t.Errorf("echo %s, want %s", p.Echo, tt.echo)
			}
		})
	}
}

func TestABoundArgumentThatDoesNotFitIsNotTheModelsFault(t *testing.T) {
	s := newSet(t, "find: {description: F., parameters: {level: integer}, bind: {level: caller.level}, fake: x}", nil)
	p := s.View(nil, map[string]any{"level": "high"}).Prepare("find", json.RawMessage(`"{}"`))
	if p.Tool != nil || p.Refusal.Code != Code(tool.Failed) || strings.Contains(p.Refusal.Text, "level") {
		t.Errorf("Prepare() = %+v, want tool_failed without the argument's name", p.Refusal)
	}
}

func TestAToolWhoseErrorsNameAFieldOfTheCallerNeedsIt(t *testing.T) {
	s := newSet(t, `a: {description: A., errors: {404: "not for level {caller.level}"}, fake: x}`, nil)
	for _, caller := range []map[string]any{nil, {"level": json.Number("2")}} {
		if got, want := len(s.View(nil, caller).Tools()), len(caller); got != want {
			t.Errorf("a caller with %v has %d tools, want %d", caller, got, want)
		}
	}
}

func TestSendableNames(t *testing.T) {
	for given, want := range map[string]string{"a-b_1": "a-b_1", "a b/c": "a_b_c", "": "_", strings.Repeat("x", 80): strings.Repeat("x", 64), "é": "_"} {
		if got := sendable(given); got != want {
			t.Errorf("sendable(%q) = %q, want %q", given, got, want)
		}
	}
}

const errorTools = `
a:
  description: A.
  parameters: {id: {type: string, optional: true}}
  errors:
    404: {code: not_found, message: "there is no {id}"}
    4xx: {code: refused, message: "refused ({status})"}
    5xx: {code: down, message: "down (HTTP {status})", retryable: false}
    409: {result: {duplicate: true}}
    timeout: too slow
    failed: {code: taken, message: "{id} is taken"}
    default: something went wrong
  fake: x
b: {description: B., fake: x}
c: {description: C., expose_errors: true, fake: x}
`

func TestObservationsOfFailures(t *testing.T) {
	hidden := errors.New("dial postgres://svc:pa55word@db.internal: refused, key s3cr3t")
	for _, tt := range []struct {
		name, tool string
		err        error
		want       string
	}{
		{"the exact status", "a", &tool.Error{Class: tool.Failed, Type: tool.TypeHTTPStatus, Status: 404}, `{"ok":false,"error":{"code":"not_found","message":"there is no A7","retryable":false}}`},
		{"the class", "a", &tool.Error{Class: tool.Failed, Type: tool.TypeHTTPStatus, Status: 418}, `{"ok":false,"error":{"code":"refused","message":"refused (418)","retryable":false}}`},
		{"the class, whose retryable counts", "a", &tool.Error{Class: tool.Unavailable, Type: tool.TypeHTTPStatus, Status: 503}, `{"ok":false,"error":{"code":"down","message":"down (HTTP 503)","retryable":false}}`},
		{"data in the place of an error", "a", &tool.Error{Class: tool.Failed, Status: 409}, `{"duplicate":true}`},
		{"timeout in words alone", "a", &tool.Error{Class: tool.Timeout, Type: tool.TypeTimeout}, `{"ok":false,"error":{"code":"timeout","message":"too slow","retryable":true}}`},
		{"default", "a", &tool.Error{Class: tool.Unavailable, Type: tool.TypeConnect}, `{"ok":false,"error":{"code":"unavailable","message":"something went wrong","retryable":true}}`},
		{"the service's own", "a", &tool.Error{Class: tool.Business}, `{"ok":false,"error":{"code":"taken","message":"A7 is taken","retryable":false}}`},
		{"the service's own, without an entry", "b", &tool.Error{Class: tool.Business}, `{"ok":false,"error":{"code":"tool_error","message":"the service reported a failure","retryable":false}}`},
		{"the service's own words", "b", &tool.Error{Class: tool.Business, Message: "no note"}, `{"ok":false,"error":{"code":"tool_error","message":"no note","retryable":false}}`},
		{"a type alone", "b", &tool.Error{Class: tool.Unavailable, Type: tool.TypeConnect, Err: hidden}, `{"ok":false,"error":{"code":"unavailable","message":"tool failed: ConnectError","retryable":true}}`},
		{"what can't be read", "b", &tool.Error{Class: tool.InvalidResult, Type: tool.TypeDecode, Err: hidden}, `{"ok":false,"error":{"code":"invalid_result","message":"tool failed: DecodeError","retryable":false}}`},
		{"an error that is no tool.Error", "b", hidden, `{"ok":false,"error":{"code":"tool_failed","message":"tool failed: InternalError","retryable":false}}`},
		{"exposed, masked", "c", &tool.Error{Class: tool.Failed, Type: tool.TypeHTTPStatus, Status: 400, Err: hidden}, `{"ok":false,"error":{"code":"tool_failed","message":"tool failed: HTTPStatusError: HTTPStatusError (tool_failed) status 400: dial postgres://svc:***@db.internal: refused, key ***","retryable":false}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSet(t, errorTools, func(context.Context, tool.Call) (tool.Result, error) { return tool.Result{}, tt.err })
			v := s.View(nil, nil)
			got, err := v.Run(t.Context(), v.Prepare(tt.tool, json.RawMessage(`{"id":"A7"}`)), Scope{})
			if err != nil || got.Text != tt.want {
				t.Errorf("observation %s (%v), want %s", got.Text, err, tt.want)
			}
		})
	}
}

func TestErrorsAsText(t *testing.T) {
	s := newSet(t, errorTools, func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{}, &tool.Error{Class: tool.Failed, Status: 404}
	}, func(o *Options) { o.TextErrors = true })
	v := s.View(nil, nil)
	got, _ := v.Run(t.Context(), v.Prepare("a", json.RawMessage(`{"id":"A7"}`)), Scope{})
	if got.Text != "there is no A7" || got.Code != "not_found" {
		t.Errorf("observation %+v", got)
	}
}

func TestGoodResults(t *testing.T) {
	for _, tt := range []struct {
		name, result, want string
		empty              bool
	}{
		{"as it is", `{"a": "<b>"}`, `{"a": "<b>"}`, false},
		{"nothing", "", noContent, true},
		{"null", " null\n", noContent, true},
		{"bytes that are no text", "caf\xe9", "caf\uFFFD", false},
		{"cut", strings.Repeat("ä", 12), strings.Repeat("ä", 10) + "\n[truncated: the last 2 of 12 characters are missing]", false},
	} {
		s := newSet(t, "a: {description: A., max_output: 10, fake: x}", func(context.Context, tool.Call) (tool.Result, error) { return tool.Result{Text: tt.result}, nil })
		v := s.View(nil, nil)
		if tt.name == "as it is" {
			v.list[0].config.MaxOutput = 100
		}
		got, err := v.Run(t.Context(), v.Prepare("a", nil), Scope{})
		if err != nil || got.Text != tt.want || got.Empty != tt.empty || !got.OK() {
			t.Errorf("%s: %+v, %v; want %q", tt.name, got, err, tt.want)
		}
	}
}

func TestCutKeepsTheBeginningAndValidText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		limit := rapid.IntRange(0, 20).Draw(t, "limit")
		got := Cut(s, limit)
		head, _, cut := strings.Cut(got, "\n[truncated: ")
		switch {
		case utf8.RuneCountInString(s) <= limit && got != s:
			t.Errorf("Cut(%q, %d) = %q, want it whole", s, limit, got)
		case utf8.RuneCountInString(s) > limit && (!cut || utf8.RuneCountInString(head) != limit || !strings.HasPrefix(s, head)):
			t.Errorf("Cut(%q, %d) = %q", s, limit, got)
		case utf8.ValidString(s) && !utf8.ValidString(got):
			t.Errorf("Cut(%q, %d) = %q is no valid text", s, limit, got)
		}
	})
}

// sleepy takes a second, or as long as it is let.
func sleepy(ctx context.Context, _ tool.Call) (tool.Result, error) {
	select {
	case <-time.After(time.Second):
		return tool.Result{Text: "done"}, nil
	case <-ctx.Done():
		return tool.Result{}, &tool.Error{Class: tool.Timeout, Type: tool.TypeTimeout, Err: context.Cause(ctx)}
	}
}

func TestCallsInTime(t *testing.T) {
	for _, tt := range []struct {
		name, yaml string
		run        time.Duration // of the whole run
		want       string        // code of the observation; "" is a good one
		took       time.Duration
		err        bool
	}{
		{"in time", "timeout: 2s", time.Hour, "", time.Second, false},
		{"past its timeout", "timeout: 300ms", time.Hour, "timeout", 300 * time.Millisecond, false},
		{"past its timeout, twice", "timeout: 300ms, retry: {attempts: 2, base: 1ms, max: 1ms}", time.Hour, "timeout", 601 * time.Millisecond, false},
		{"past the run's time", "timeout: 2s", 400 * time.Millisecond, "", 400 * time.Millisecond, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSet(t, "a: {description: A., fake: x, "+tt.yaml+"}", sleepy)
				v := s.View(nil, nil)
				ended := errors.New("the run ended")
				ctx, cancel := context.WithTimeoutCause(t.Context(), tt.run, ended)
				defer cancel()
				start := time.Now()
				got, err := v.Run(ctx, v.Prepare("a", nil), Scope{})
				if errors.Is(err, ended) != tt.err || string(got.Code) != tt.want {
					t.Errorf("Run() = %+v, %v; want code %q", got, err, tt.want)
				}
				if took := time.Since(start); took < tt.took-2*time.Millisecond || took > tt.took+2*time.Millisecond {
					t.Errorf("took %v, want %v", took, tt.took)
				}
			})
		})
	}
}

func TestConcurrencyWaitsWithinTheTimeout(t *testing.T) {
	for name, tt := range map[string]struct {
		holds time.Duration // how long the first call holds the only place
		want  Code
	}{
		"a place in time":                    {time.Second, ""},
		"a place that comes too late to use": {3*time.Second - time.Millisecond, Code(tool.Unavailable)},
		"no place in time":                   {time.Hour, Code(tool.Unavailable)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := true
				s := newSet(t, "a: {description: A., fake: x, concurrency: 1, timeout: 3s}", func(context.Context, tool.Call) (tool.Result, error) {
					if first {
						first = false
						time.Sleep(tt.holds) // whatever its context says
					}
					return tool.Result{Text: "done"}, nil
				})
				v := s.View(nil, nil)
				var wg sync.WaitGroup
				wg.Go(func() { _, _ = v.Run(t.Context(), v.Prepare("a", nil), Scope{}) })
				synctest.Wait()
				start := time.Now()
				got, err := v.Run(t.Context(), v.Prepare("a", nil), Scope{})
				if err != nil || got.Code != tt.want {
					t.Errorf("Run() = %+v, %v; want code %q", got, err, tt.want)
				}
				if took := time.Since(start); took != min(tt.holds, 2850*time.Millisecond) {
					t.Errorf("waited %v", took)
				}
				wg.Wait()
			})
		})
	}
}

func TestBreakerOpensForATool(t *testing.T) {
	calls := 0
	s := newSet(t, "a: {description: A., fake: x, breaker: {failures: 2, open_for: 1h}, retry: 3}", func(context.Context, tool.Call) (tool.Result, error) {
		calls++
		return tool.Result{}, &tool.Error{Class: tool.Unavailable, Type: tool.TypeConnect}
	})
	v := s.View(nil, nil)
	start := time.Now()
	got, err := v.Run(t.Context(), v.Prepare("a", nil), Scope{})
	if err != nil || calls != 2 || !strings.Contains(got.Text, "CircuitOpenError") || time.Since(start) > 10*time.Second {
		t.Errorf("%d calls, %s, %v after %v; want two and the open breaker at once", calls, got.Text, err, time.Since(start))
	}
}

func TestMetricsAreWellNamed(t *testing.T) {
	reg := prometheus.NewRegistry()
	NewMetrics(reg).known("a")
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}

func TestSourcesComeAndGo(t *testing.T) {
	s := newSet(t, viewTools, nil)
	empty, err := schema.Parse(json.RawMessage(`{"type":"object","properties":{"q":{"type":"string"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	found := func(name, id string, effect tool.Effect) Found {
		return Found{Name: name, ID: id, Kind: "mcp", Description: "Of a server.", Schema: empty, Effect: effect, Breaker: "server:x", Tool: call(func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Result{Text: "from " + id}, nil
		})}
	}
	before := s.View(1, map[string]any{"id": "a"})
	s.Replace("x", []Found{found("x__b", "x__b", tool.Write), found("x__a", "x__a_long_name", tool.Read), found("zeta", "zeta", tool.Read), found("bad name", "y", tool.Read)})
	if names(before) != "zeta alpha mike" {
		t.Errorf("a view changed under way: %s", names(before))
	}
	after := s.View(1, map[string]any{"id": "a"})
	if got := names(after); got != "zeta alpha mike x__a x__b" {
		t.Errorf("tools = %s, want the file's first, then the source's by name", got)
	}
	list, _ := globs.Parse([]string{"*", "-x__a_long_name"})
	if got := names(s.View(nil, nil, list)); got != "zeta mike x__b" {
		t.Errorf("tools = %s: permissions look at the tool's own id", got)
	}
	got, err := after.Run(t.Context(), after.Prepare("x__a", json.RawMessage(`"{\"q\":\"1\"}"`)), Scope{})
	if err != nil || got.Text != "from x__a_long_name" {
		t.Errorf("Run() = %+v, %v", got, err)
	}
	s.Replace("x", nil)
	if got := names(s.View(1, map[string]any{"id": "a"})); got != "zeta alpha mike" {
		t.Errorf("tools = %s after the source has gone", got)
	}
}

func TestAdvice(t *testing.T) {
	const good = "description: Looks up the state of an order by its number., fake: x, parameters: {number: {type: string, description: The number.}}"
	for _, tt := range []struct{ name, yaml, want string }{
		{"nothing to say", "lookup_order: {" + good + "}", ""},
		{"a short description", "lookup_order: {description: Orders., fake: x}", "short-description"},
		{"a name that says nothing", "func1: {" + good + "}", "placeholder-name"},
		{"a parameter without description", "lookup_order: {description: Looks up the state of an order., fake: x, parameters: {number: string}}", "undescribed-parameter"},
		{"not one that says it by other means", "lookup_order: {description: Looks up the state of an order., fake: x, parameters: {number: {type: string, format: date}, state: {enum: [a, b]}}}", ""},
		{"a bound parameter is nobody's business", "lookup_order: {description: Looks up the state of an order., fake: x, parameters: {data: string}, bind: {data: \"'x'\"}}", ""},
		{"a vague name", "lookup_order: {description: Looks up the state of an order., fake: x, parameters: {data: {type: string, description: D.}}}", "vague-parameter"},
		{"a write of one free text", "save_order: {description: Saves the order of a customer., effect: write, idempotent: true, fake: x, parameters: {order: {type: string, description: D.}}}", "free-text"},
		{"an action", "orders: {description: Does something with an order., fake: x, parameters: {action: {enum: [get, drop]}}}", "action-enum"},
		{"an unguarded write", "save_order: {description: Saves the order of a customer., effect: write, fake: x}", "unguarded-write"},
		{"a write beside strangers", "read_page: {description: Reads a page of the web., fake: x, untrusted: true}\nsave_order: {description: Saves the order of a customer., effect: write, idempotent: true, fake: x}", "untrusted-write"},
		{"a write beside strangers that is confirmed", "read_page: {description: Reads a page of the web., fake: x, untrusted: true}\nsave_order: {description: Saves the order of a customer., effect: write, idempotent: true, confirm: {by: user, after: untrusted}, fake: x}", ""},
		{"confirmed after nothing", "save_order: {description: Saves the order of a customer., effect: write, idempotent: true, confirm: {by: user, after: untrusted}, fake: x}", "nothing-untrusted"},
		{"confirmed at times is no guard", "read_page: {description: Reads a page of the web., fake: x, untrusted: true}\nsave_order: {description: Saves the order of a customer., effect: write, confirm: {by: user, after: untrusted}, fake: x}", "unguarded-write"},
		{"two that are alike", "lookup_order: {" + good + "}\nlookup_orders: {" + good + "}", "similar-tools"},
		{"switched off", "# toolgate: allow short-description\nlookup_order: {description: Orders., fake: x}", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := config.Parse("tools.yaml", ".", []byte("tools:\n  "+strings.ReplaceAll(tt.yaml, "\n", "\n  ")), func(string) (string, bool) { return "", false })
			Read(f.Root().Get("tools"), kindsOf(nil), nil).Advise(f.Root(), false)
			if p := f.Problems(); p != nil {
				t.Fatal(p)
			}
			w := f.Warnings()
			if (w != nil) != (tt.want != "") || tt.want != "" && !strings.Contains(w.Error(), tt.want+": ") || len(w) > 1 {
				t.Errorf("warnings = %v, want one of %q", w, tt.want)
			}
		})
	}
}

func TestAdviceOfManyTools(t *testing.T) {
	yaml := "tools:\n"
	for i := range manyTools + 1 {
		yaml += fmt.Sprintf("  tool_of_kind_%d: {description: %q, fake: x}\n", i, strings.Repeat(string(rune('a'+i)), 4)+" is what this "+strings.Repeat(string(rune('b'+i)), 3)+" does")
	}
	f := config.Parse("tools.yaml", ".", []byte(yaml), func(string) (string, bool) { return "", false })
	Read(f.Root().Get("tools"), kindsOf(nil), nil).Advise(f.Root(), false)
	if w := f.Warnings(); w == nil || !strings.Contains(w.Error(), "many-tools: 21 tools") {
		t.Errorf("warnings = %v", w)
	}
}

// Twenty tools of a kind were a hundred and ninety warnings, one for each two of them.
func TestAdviceOfToolsAlikeComesOnceForEach(t *testing.T) {
	yaml := "tools:\n"
	for i := range 10 {
		yaml += fmt.Sprintf("  find_entry_%d: {description: Finds an entry of the archive by its name and its year., fake: x}\n", i)
	}
	f := config.Parse("tools.yaml", ".", []byte(yaml), func(string) (string, bool) { return "", false })
	Read(f.Root().Get("tools"), kindsOf(nil), nil).Advise(f.Root(), false)
	w := f.Warnings()
	if len(w) != 9 || !strings.Contains(w.Error(), "much like those of find_entry_0 and 8 more") {
		t.Errorf("%d warnings: %v", len(w), w)
	}
}
