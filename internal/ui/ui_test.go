package ui

import (
	"bytes"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

func served(t *testing.T, p *Pages, name, tag string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/gateway/ui/"+name, nil)
	r.Header.Set("If-None-Match", tag)
	if !p.Serve(w, r, name) {
		t.Fatalf("there is no %s", name)
	}
	return w
}

// Each file comes with the policy, as a browser takes that of the file which it shows.
func TestFilesAreServedWithWhatGuardsThem(t *testing.T) {
	p := New()
	for name, kind := range map[string]string{"index.html": "text/html; charset=utf-8", "style.css": "text/css; charset=utf-8", "app.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml"} {
		w := served(t, p, name, "")
		h := w.Header()
		if w.Code != http.StatusOK || w.Body.Len() == 0 || h.Get("Content-Type") != kind || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" || h.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %d %v", name, w.Code, h)
		}
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "form-action 'none'", "frame-ancestors 'none'", "base-uri 'none'"} {
			if !strings.Contains(h.Get("Content-Security-Policy"), want) {
				t.Errorf("%s: no %s", name, want)
			}
		}
		if w = served(t, p, name, h.Get("Etag")); w.Code != http.StatusNotModified || w.Body.Len() > 0 {
			t.Errorf("%s, which is there already: %d", name, w.Code)
		}
	}
	for _, name := range []string{"", ".", "none.js", "../ui.go", "static/app.js"} {
		if p.Serve(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil), name) {
			t.Errorf("there is %q", name)
		}
	}
}

// What would make markup of a text, or run a part of one, has no place in the page's scripts.
func TestNothingMakesMarkupOfTexts(t *testing.T) {
	bad := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|srcdoc|createContextualFragment|eval\(|new Function|localStorage|https?://|//cdn`)
	err := fs.WalkDir(static, "static", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".js") && !strings.HasSuffix(path, ".css") && !strings.HasSuffix(path, ".html") {
			return err
		}
		content, err := static.ReadFile(path)
		if found := bad.Find(content); found != nil {
			t.Errorf("%s has %s", path, found)
		}
		if strings.HasSuffix(path, ".html") && (bytes.Contains(content, []byte("style=")) || bytes.Contains(content, []byte("<style")) || regexp.MustCompile(`\son[a-z]+=|<script>`).Match(content)) {
			t.Errorf("%s has a style or script within", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
