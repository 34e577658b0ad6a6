package placeholder

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

const nasty = "a/../b?c=d&e#f%2F+ \"<é>\\\r\n\x00"

func TestEscapesCanBeReadBack(t *testing.T) {
	if got, err := url.PathUnescape(PathSegment(nasty)); err != nil || got != nasty {
		t.Errorf("PathSegment: read back as %q, %v", got, err)
	}
	if strings.ContainsAny(PathSegment(nasty), "/?#\\\r\n\x00 ") {
		t.Errorf("PathSegment(%q) = %q has characters with a meaning", nasty, PathSegment(nasty))
	}
	values, err := url.ParseQuery("q=" + QueryValue(nasty))
	if err != nil || len(values) != 1 || values.Get("q") != nasty {
		t.Errorf("QueryValue: read back as %q, %v", values, err)
	}
	var s string
	if err := json.Unmarshal([]byte(`"`+JSONString(nasty)+`"`), &s); err != nil || s != nasty {
		t.Errorf("JSONString: read back as %q, %v", s, err)
	}
	if got, want := JSONString(`<"&>`), `<\"&>`; got != want {
		t.Errorf("JSONString = %q, want %q", got, want)
	}
	if got, want := XMLText(`</a b="1">&`), `&lt;/a b=&#34;1&#34;&gt;&amp;`; got != want {
		t.Errorf("XMLText = %q, want %q", got, want)
	}
}

func TestHeaderValueRefusesWhatCouldEndTheHeader(t *testing.T) {
	for s, want := range map[string]bool{
		"": true, "plain é": true, "tab\there": true,
		"a\r\nX: y": false, "a\nb": false, "a\rb": false, "nul\x00": false, "del\x7f": false,
	} {
		if got := HeaderValue(s); got != want {
			t.Errorf("HeaderValue(%q) = %t, want %t", s, got, want)
		}
	}
}

func TestDotSegment(t *testing.T) {
	for s, want := range map[string]bool{
		".": true, "..": true, "%2e": true, "%2E.": true, "%2e%2E": true,
		"": false, "...": false, "a": false, ".a": false, "%252e": false, "a%2F..": false,
	} {
		if got := DotSegment(s); got != want {
			t.Errorf("DotSegment(%q) = %t, want %t", s, got, want)
		}
	}
}

func TestURLTextKeepsWhatIsValid(t *testing.T) {
	for s, want := range map[string]string{
		"/a/b%20c;d=1?x=[1]&y=%C3%A9": "/a/b%20c;d=1?x=[1]&y=%C3%A9",
		"/são paulo":                  "/s%C3%A3o%20paulo",
		"100%":                        "100%25",
		"%zz":                         "%25zz",
		`{"a"}|\^<>`:                  "%7B%22a%22%7D%7C%5C%5E%3C%3E",
		"a\nb":                        "a%0Ab",
	} {
		got := URLText(s)
		if got != want {
			t.Errorf("URLText(%q) = %q, want %q", s, got, want)
		}
		if again := URLText(got); again != got {
			t.Errorf("URLText(%q) = %q, want it unchanged", got, again)
		}
	}
}
