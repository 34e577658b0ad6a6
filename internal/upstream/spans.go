package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/span"
)

// providerNames are what OpenTelemetry calls providers (semantic conventions 1.41, gen_ai.provider.name), by profile.
// Without one of these it is openai, whose API it is.
var providerNames = map[string]string{
	"azure": "azure.ai.openai", "gemini": "gcp.gemini", "mistral": "mistral_ai", "deepseek": "deepseek", "groq": "groq",
	"openrouter": "openrouter", "ollama": "ollama", "vllm": "vllm", "llamacpp": "llamacpp", "lmstudio": "lmstudio",
}

func providerName(c *Config) string {
	if name := providerNames[c.Profile]; name != "" {
		return name
	}
	if c.Kind == kindAzure {
		return providerNames["azure"]
	}
	return "openai"
}

// operations are those of the conventions, by endpoint; "" is chat/completions.
var operations = map[string]string{"": "chat", "completions": "text_completion", "embeddings": "embeddings", "responses": "chat"}

// modelCall begins the span of a model call: of a request whose reply the gateway reads, or that it passes through.
// Endpoints that the conventions do not know have none.
func (r Route) modelCall(ctx context.Context, path string, req *chat.Request) (context.Context, *span.Span) {
	operation := operations[path]
	if operation == "" || req == nil {
		return ctx, nil
	}
	model := r.target(req)
	ctx, s := span.Start(ctx, span.Client, operation, model)
	if !s.Recording() {
		return ctx, s
	}
	s.Text("gen_ai.operation.name", operation)
	s.Text("gen_ai.provider.name", r.client.provider)
	s.Text("gen_ai.request.model", model)
	if req.Stream {
		s.Yes("gen_ai.request.stream")
	}
	s.Text("toolgate.upstream", r.client.name)
	r.client.tellAddress(s)
	return ctx, s
}

// tellAddress says where the provider is.
func (c *Client) tellAddress(s *span.Span) {
	if !s.Recording() {
		return
	}
	base := c.at.base
	s.Text("server.address", base.Hostname())
	port := base.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[base.Scheme]
	}
	n, _ := strconv.ParseInt(port, 10, 64) // the file's check has read it
	s.Number("server.port", n)
}

// tellTurn says what came of a model call, and ends its span.
func tellTurn(s *span.Span, a *Answer, err error) {
	defer s.End()
	if !s.Recording() {
		return
	}
	if err != nil {
		tellFailure(s, err)
		return
	}
	t := a.Turn
	s.Text("gen_ai.response.id", t.ID)
	s.Text("gen_ai.response.model", t.Model)
	s.List("gen_ai.response.finish_reasons", t.Finish)
	tokens := chat.ReadTokens(t.Usage)
	s.Number("gen_ai.usage.input_tokens", tokens.Prompt)
	s.Number("gen_ai.usage.output_tokens", tokens.Completion)
	s.Number("gen_ai.usage.cache_read.input_tokens", tokens.Cached)
}

// tellFailure says why a call failed: the provider's status, or the kind of failure. Texts of errors name hosts.
func tellFailure(s *span.Span, err error) {
	why := "error"
	if e, ok := errors.AsType[*Error](err); ok {
		why = codeLabel(e)
	}
	s.Fail(why)
}

// attempt begins the span of one HTTP request.
func (c *Client) attempt(ctx context.Context, r call, n int) (context.Context, *span.Span) {
	ctx, s := span.Start(ctx, span.Client, r.method, "")
	if s.Recording() {
		s.Text("http.request.method", r.method)
		s.Number("http.request.resend_count", int64(n-1))
		c.tellAddress(s)
	}
	return ctx, s
}

// tellAttempt says what came of it, and ends its span. With a good reply that is its header.
func tellAttempt(s *span.Span, resp *http.Response, err error) {
	defer s.End()
	if !s.Recording() {
		return
	}
	e, failed := errors.AsType[*Error](err)
	switch {
	case resp != nil:
		s.Number("http.response.status_code", int64(resp.StatusCode))
	case failed:
		s.Number("http.response.status_code", int64(e.Status))
	}
	if err != nil {
		tellFailure(s, err)
	}
}

// tracedBody ends the span of a model call with the reply that is passed on.
type tracedBody struct {
	io.ReadCloser
	span *span.Span
	seen bool
}

func (b *tracedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 && !b.seen {
		b.seen = true
		b.span.Elapsed("gen_ai.response.time_to_first_chunk")
	}
	if err != nil && !errors.Is(err, io.EOF) {
		b.span.Fail(string(Broken))
	}
	return n, err
}

func (b *tracedBody) Close() error {
	defer b.span.End()
	return b.ReadCloser.Close()
}

// tracePassed hands the span of a model call to its reply.
func tracePassed(s *span.Span, resp *http.Response, err error) {
	switch {
	case s == nil:
	case err != nil:
		tellFailure(s, err)
		s.End()
	default:
		resp.Body = &tracedBody{ReadCloser: resp.Body, span: s, seen: !strings.Contains(resp.Header.Get("Content-Type"), "event-stream")}
	}
}
