// Package ui is the runs page: static files that hold no data and ask the gateway's own endpoints for it.
package ui

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"net/http"
	"path"
)

//go:embed static
var static embed.FS

// policy lets the page load its own two files and ask its own gateway, and nothing else: what a hostile model, tool or
// client gets into it can neither run nor tell anybody anything.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"

// Index is the page itself; it finds the other files below its own path.
const Index = "index.html"

// file is one of the page's, with what stands for its content.
type file struct {
	content []byte
	kind    string
	tag     string
}

// Pages serves the files.
type Pages struct{ files map[string]file }

// New reads the files that are in the binary.
func New() *Pages {
	p := &Pages{files: map[string]file{}}
	entries, err := fs.ReadDir(static, "static")
	if err != nil {
		panic(err) // they are in the binary
	}
	for _, e := range entries {
		content, err := static.ReadFile(path.Join("static", e.Name()))
		if err != nil {
			panic(err) // likewise
		}
		sum := sha256.Sum256(content)
		p.files[e.Name()] = file{content, kinds[path.Ext(e.Name())], `"` + base64.RawURLEncoding.EncodeToString(sum[:15]) + `"`}
	}
	return p
}

// kinds are the types by the ends of names: those of the system may differ from machine to machine.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// Serve writes the file with that name, and says whether there is one. Browsers ask each time whether theirs is still
// the same, so that page and gateway always fit.
func (p *Pages) Serve(w http.ResponseWriter, r *http.Request, name string) bool {
	f, ok := p.files[name]
	if !ok {
		return false
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY") // for browsers that do not know frame-ancestors
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	h.Set("Etag", f.tag)
	if r.Header.Get("If-None-Match") == f.tag {
		w.WriteHeader(http.StatusNotModified)
		return true
	}
	h.Set("Content-Type", f.kind)
	_, _ = w.Write(f.content) // the client may have left
	return true
}
