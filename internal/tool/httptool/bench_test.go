package httptool

import (
	"io"
	"net/http"
	"testing"

	"github.com/toolgate/toolgate/internal/tool"
)

// BenchmarkCall is the usual call: a GET with an argument in the path and one in the query, on a kept connection of the
// loopback, its small JSON reply trimmed by jq. It bounds what a tool costs besides its service; the allocations are
// those of the service in the same process as well.
func BenchmarkCall(b *testing.B) {
	base := serve(b, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"cep": "01001-000", "localidade": "São Paulo", "uf": "SP", "ibge": "3550308"}`)
	})
	made := newTool(b, `{url: "`+base+`/cep/{cep}", query: {lang: "{lang}"}, result: '"\(.cep): \(.localidade)"'}`, spec(tool.Read, "cep", "lang"))
	c := tool.Call{Args: map[string]any{"cep": "01001000", "lang": "pt"}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := made.Call(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRequest is the part of that which fills the request in.
func BenchmarkRequest(b *testing.B) {
	conf, f := load(`{url: "http://h/cep/{cep}", query: {lang: "{lang}"}}`, spec(tool.Read, "cep", "lang"), nil)
	if p := f.Problems(); p != nil {
		b.Fatal(p)
	}
	c := tool.Call{Args: map[string]any{"cep": "01001000", "lang": "pt"}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conf.plan.request(c); err != nil {
			b.Fatal(err)
		}
	}
}
