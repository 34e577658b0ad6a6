package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/toolgate/toolgate/internal/outbound"
	"github.com/toolgate/toolgate/internal/registry"
	"github.com/toolgate/toolgate/internal/tool"
	"github.com/toolgate/toolgate/internal/trial"
)

// stubs stand in for tools of a gateway, for one case of gateway test.
type stubs struct{ byName map[string]*trial.Stub }

// options let a Set's tools be stood in for.
func (s *stubs) options(o registry.Options) registry.Options {
	env := o.Env
	o.EnvOf = func(name string) tool.Env {
		own := env
		own.Transport = stubTransport{s, name, env.Transport}
		return own
	}
	o.Wrap = func(name string, t tool.Tool) tool.Tool { return stubTool{s, name, t} }
	return o
}

// stub makes a tool answer as the stub says.
func (g *gateway) stub(name string, stub *trial.Stub) error {
	for _, t := range g.tools.All() {
		if t.Name != name {
			continue
		}
		if t.Kind != "http" && stub.Result == nil && stub.Fails == "" {
			return fmt.Errorf("tools.%s: is no http tool: want result or fails", name)
		}
		g.stubs.byName[name] = stub
		return nil
	}
	return fmt.Errorf("tools.%s: there is no such tool", name)
}

// stubTool is a tool that may be stood in for as a whole.
type stubTool struct {
	stubs *stubs
	name  string
	next  tool.Tool
}

// Call answers as the stub says, or calls the tool.
func (t stubTool) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	switch s := t.stubs.byName[t.name]; {
	case s == nil:
	case s.Result != nil:
		return tool.Result{Text: *s.Result}, nil
	case s.Fails == "timeout":
		return tool.Result{}, &tool.Error{Class: tool.Timeout, Type: tool.TypeTimeout, Err: errStub}
	case s.Fails == "unavailable":
		return tool.Result{}, &tool.Error{Class: tool.Unavailable, Type: tool.TypeConnect, Err: errStub}
	}
	return t.next.Call(ctx, c)
}

var errStub = errors.New("as the case says")

// stubTransport is the service of an http tool that may be stood in for.
type stubTransport struct {
	stubs *stubs
	name  string
	next  http.RoundTripper
}

// For is the same for some TLS settings.
func (t stubTransport) For(settings *outbound.TLS) http.RoundTripper {
	next, err := outbound.For(t.next, settings)
	if err != nil { // the gateway's own pools have all
		panic(err)
	}
	return stubTransport{t.stubs, t.name, next}
}

// RoundTrip answers as the stub says, or makes the request.
func (t stubTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	s := t.stubs.byName[t.name]
	if s == nil {
		return t.next.RoundTrip(r)
	}
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body) // a service reads what it is sent
		_ = r.Body.Close()
	}
	h := http.Header{}
	for name, v := range s.Headers.All() {
		h.Set(name, v)
	}
	return &http.Response{
		StatusCode: s.Status, Status: http.StatusText(s.Status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: io.NopCloser(strings.NewReader(s.Body)), ContentLength: int64(len(s.Body)), Request: r,
	}, nil
}
