// Package handoff is the kind of tool that ends a run and hands the user over to somebody else, who may be told of the
// conversation by a webhook.
package handoff

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/outbound"
	"github.com/toolgate/toolgate/internal/placeholder"
	"github.com/toolgate/toolgate/internal/retry"
	"github.com/toolgate/toolgate/internal/tool"
)

// Kind is the `handoff` kind of tool.
var Kind = tool.Kind{Name: "handoff", Doc: "The run ends with a message to the user, and somebody else is told.", New: func() tool.Config { return &Config{} }}

// Config is the `handoff` part of a tool.
type Config struct {
	Message string   `yaml:"message" doc:"What the user reads, with placeholders."`
	Webhook *Webhook `yaml:"webhook" doc:"An address that gets the conversation first, as a POST of JSON; its failure is one of the call."`

	message *placeholder.Template
}

// Webhook is where the conversation goes.
type Webhook struct {
	URL     string                    `yaml:"url" doc:"The address."`
	Headers config.Map[config.Secret] `yaml:"headers" doc:"Headers of the request."`
	TLS     *outbound.TLS             `yaml:"tls" doc:"How TLS is spoken."`
}

// webhook is the form of Webhook with keys.
type webhook Webhook

// DecodeNode reads an address alone, or a mapping with headers.
func (w *Webhook) DecodeNode(n *config.Node) {
	if n.Kind() == config.Mapping {
		n.Decode(w)
		return
	}
	w.URL = n.Text()
}

// ConfigSchema is that of an address or a mapping.
func (*Webhook) ConfigSchema() any {
	text := map[string]any{"type": "string"}
	return map[string]any{"anyOf": []any{text, config.SchemaOf(webhook{})}}
}

// DefaultEffect is Write where somebody is told.
func (c *Config) DefaultEffect() tool.Effect {
	if c.Webhook != nil {
		return tool.Write
	}
	return tool.Read
}

// Ending is Handoff: the run ends with the message.
func (*Config) Ending() tool.Ending { return tool.Handoff }

// Hosts is the webhook's host.
func (c *Config) Hosts() []string {
	if c.Webhook == nil {
		return nil
	}
	u, err := url.Parse(c.Webhook.URL)
	if err != nil {
		return nil
	}
	return []string{u.Hostname()}
}

// CallerFields are the fields of the caller that the message names.
func (c *Config) CallerFields() []string { return c.message.CallerFields() }

// Check reports what can't work.
func (c *Config) Check(n *config.Node, s tool.Spec) {
	if c.Message == "" {
		n.Fail("message is missing: want what the user reads")
	}
	c.message = placeholder.Read(n.Get("message"), c.Message, s)
	if c.Webhook == nil {
		return
	}
	if u, err := url.Parse(c.Webhook.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		n.FailKey("webhook", "want an http or https address")
	}
	c.Webhook.TLS.CheckAddress(n.Get("webhook"), c.Webhook.URL)
}

// Build makes the tool.
func (c *Config) Build(s tool.Spec, env tool.Env) (tool.Tool, error) {
	if c.Webhook != nil && env.Transport == nil {
		return nil, errors.New("handoff: no transport")
	}
	t := &client{name: s.Name, message: c.message, webhook: c.Webhook}
	if c.Webhook != nil {
		var err error
		if t.transport, err = outbound.For(env.Transport, c.Webhook.TLS); err != nil {
			return nil, err
		}
	}
	return t, nil
}

type client struct {
	name      string
	message   *placeholder.Template
	webhook   *Webhook
	transport http.RoundTripper
}

// Call tells the webhook, if there is one, and gives the message for the user.
func (t *client) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	if t.webhook != nil {
		if err := t.tell(ctx, c); err != nil {
			return tool.Result{}, err
		}
	}
	text, _ := t.message.Expand(c, func(s string) string { return s })
	return tool.Result{Text: text}, nil
}

// told is what the webhook gets.
type told struct {
	RunID     string          `json:"run_id"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Caller    map[string]any  `json:"caller,omitempty"`
	Messages  json.RawMessage `json:"messages"`
}

func (t *client) tell(ctx context.Context, c tool.Call) error {
	body := told{RunID: c.RunID, Tool: t.name, Arguments: c.JSON(), Caller: c.Caller, Messages: json.RawMessage("[]")}
	if c.Conversation != nil {
		body.Messages = c.Conversation()
	}
	b, err := json.Marshal(body)
	if err != nil {
		return &tool.Error{Class: tool.Failed, Type: tool.TypeInternal, Err: err}
	}
	// A reader that the transport can't read again: it would otherwise repeat the request by itself where a kept
	// connection breaks, and somebody would be told twice.
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.webhook.URL, io.NopCloser(bytes.NewReader(b)))
	if err != nil {
		return &tool.Error{Class: tool.Failed, Type: tool.TypeInternal, Err: err}
	}
	req.ContentLength = int64(len(b))
	for name, v := range t.webhook.Headers.All() {
		req.Header.Set(name, v.Reveal())
	}
	req.Header.Set("Content-Type", "application/json")
	if c.IdempotencyKey != "" {
		req.Header.Set("Idempotency-Key", c.IdempotencyKey)
	}
	resp, err := t.transport.RoundTrip(req)
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return &tool.Error{Class: tool.Timeout, Type: tool.TypeTimeout, Err: err}
		}
		return &tool.Error{Class: tool.Unavailable, Type: tool.TypeConnect, Err: err}
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection can be used again
	return refused(resp)
}

// refused is the failure that a reply means, nil for a good one.
func refused(resp *http.Response) error {
	e := &tool.Error{Type: tool.TypeHTTPStatus, Status: resp.StatusCode, Err: fmt.Errorf("the webhook answered %s", resp.Status)}
	switch s := resp.StatusCode; {
	case s < 300:
		return nil
	case s >= 500 || s == http.StatusTooManyRequests || s == http.StatusRequestTimeout:
		e.Class = tool.Unavailable
		e.RetryAfter = retry.ParseRetryAfter(resp.Header.Get("Retry-After"), time.Now())
	default:
		e.Class = tool.Failed
	}
	return e
}
