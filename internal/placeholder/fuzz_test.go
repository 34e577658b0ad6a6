package placeholder

import (
	"net/url"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/tool"
)

// FuzzExpand holds three laws for any text: without an opening brace it expands to itself; with values that are their
// own placeholders and literals put back, nothing but escapes of braces is lost; what has no placeholder has no names.
func FuzzExpand(f *testing.F) {
	for _, s := range []string{"", "plain", "{a}", "{{a}}", "{{{a}}}", `{"a":{b}}`, "{caller.x}", "{caller.}", "{a", "é{ã}", "{run_id}{idempotency_key}", "{\xff}"} {
		f.Add(s, "value")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		tmpl, err := Parse(text)
		if err != nil {
			if !strings.Contains(text, "{caller") {
				t.Fatalf("Parse(%q) = %v", text, err)
			}
			return
		}
		c := tool.Call{Args: map[string]any{}, Caller: map[string]any{}, RunID: "{run_id}", IdempotencyKey: "{idempotency_key}"}
		for _, name := range tmpl.Names() {
			c.Args[name] = "{" + name + "}"
		}
		for _, name := range tmpl.CallerFields() {
			c.Caller[name] = "{caller." + name + "}"
		}
		got, missing := tmpl.Expand(c, nil)
		if missing {
			t.Errorf("Expand(%q): missing, though each value is there", text)
		}
		if !strings.Contains(text, "{") && got != text {
			t.Errorf("Expand(%q) = %q, want it unchanged", text, got)
		}
		if !strings.Contains(text, "{{") && got != text {
			t.Errorf("Expand(%q) = %q with each placeholder for itself", text, got)
		}
		for _, name := range tmpl.Names() {
			c.Args[name] = value
		}
		if tmpl.Static() {
			return
		}
		if again, _ := tmpl.Expand(c, func(string) string { return "" }); len(again) > len(text) {
			t.Errorf("Expand(%q) with empty values = %q, longer than the text", text, again)
		}
	})
}

// FuzzPathSegment: whatever a value is, it stays within its segment, and no path around it changes its structure.
func FuzzPathSegment(f *testing.F) {
	for _, s := range []string{"", ".", "..", "a/b", "a?b#c", "%2F", "é", "\xff", `a\b`, "a;b", "a:b@c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		tmpl, err := Parse("/x/{v}/y")
		if err != nil {
			t.Fatal(err)
		}
		path, _ := tmpl.Expand(tool.Call{Args: map[string]any{"v": value}}, PathSegment)
		if strings.Count(path, "/") != 3 || strings.ContainsAny(path, "?#\\ ") || URLText(path) != path {
			t.Fatalf("Expand(%q) = %q", value, path)
		}
		u, err := url.Parse("http://h" + path)
		if err != nil || u.EscapedPath() != path || u.RawQuery != "" || u.Fragment != "" || u.Host != "h" {
			t.Fatalf("Expand(%q) = %q, parsed as %#v, %v", value, path, u, err)
		}
		if u.Path != "/x/"+value+"/y" {
			t.Errorf("Expand(%q) is read back as %q", value, u.Path)
		}
	})
}
