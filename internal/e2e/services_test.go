//go:build e2e

package e2e

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/script"
)

// provider is a model's API that notes what it is asked.
type provider struct {
	*httptest.Server
	mu    sync.Mutex
	asked []asked
}

// asked is one request of the gateway for a model's turn.
type asked struct {
	body   gjson.Result
	header http.Header
	gone   <-chan struct{} // closed when the request has ended, also because the gateway left
}

// newProvider starts a provider that answers by h, which finds the request's body unread.
func newProvider(t *testing.T, h http.Handler) *provider {
	t.Helper()
	p := &provider{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the gateway left
		}
		p.mu.Lock()
		p.asked = append(p.asked, asked{gjson.ParseBytes(body), r.Header, r.Context().Done()})
		p.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

// scripted is a provider that follows a script.
func scripted(t *testing.T, text string) http.Handler {
	t.Helper()
	s, err := script.Parse("script.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return script.NewServer(s)
}

// requests are those of conversations with that question, in the order that they came.
func (p *provider) requests(question string) []asked {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []asked
	for _, a := range p.asked {
		if a.question() == question {
			list = append(list, a)
		}
	}
	return list
}

// question is the user's last message.
func (a asked) question() string {
	return a.body.Get(`messages.#(role=="user")#.content|@reverse|0`).Str
}

// observations are the tool messages that the model reads, in order.
func (a asked) observations() []string {
	var list []string
	for _, m := range a.body.Get(`messages.#(role=="tool")#.content`).Array() {
		list = append(list, m.Str)
	}
	return list
}

// cepService looks up Brazilian postal codes, and can fail in the ways of such services. It takes notes too.
type cepService struct {
	*httptest.Server
	mu     sync.Mutex
	called []string
}

// Codes with which the service fails.
const (
	unknownCEP = "00000000" // 404
	hangingCEP = "99999999" // no answer, until the caller leaves
	brokenCEP  = "50000000" // 503
)

func newCEPService(t *testing.T) *cepService {
	t.Helper()
	s := &cepService{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP serves GET /cep/{8 digits} and POST /notes.
func (s *cepService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost && r.URL.Path == "/notes" {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.called = append(s.called, gjson.GetBytes(body, "note").Str)
		s.mu.Unlock()
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "kept")
		return
	}
	cep := strings.TrimPrefix(r.URL.Path, "/cep/")
	s.mu.Lock()
	s.called = append(s.called, cep)
	s.mu.Unlock()
	switch cep {
	case unknownCEP:
		http.Error(w, "no such code in table ceps", http.StatusNotFound)
	case hangingCEP:
		<-r.Context().Done()
	case brokenCEP:
		http.Error(w, "database ceps is down", http.StatusServiceUnavailable)
	default:
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = io.WriteString(w, `{"cep":"`+cep[:5]+"-"+cep[5:]+`","logradouro":"","complemento":"","unidade":"","bairro":"",`+
			`"localidade":"Picos","uf":"PI","ibge":"2208007","ddd":"89","siafi":"1159"}`)
	}
}

// calls are the codes that were asked for and the notes that were kept, in order.
func (s *cepService) calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.called)
}

// callsFor is how often that code was asked for, or that note was kept.
func (s *cepService) callsFor(cep string) int {
	n := 0
	for _, c := range s.calls() {
		if c == cep {
			n++
		}
	}
	return n
}

// closedAddress is an address where nobody listens.
func closedAddress(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	return s.URL
}

// within waits until done, and says how long that took.
func within(t *testing.T, what string, done <-chan struct{}) time.Duration {
	t.Helper()
	begin := time.Now()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s: nothing happened for %s", what, patience)
	}
	return time.Since(begin)
}
