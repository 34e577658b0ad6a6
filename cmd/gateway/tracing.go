package main

import (
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/http/httpguts"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/span"
)

// traceConfig is the section `trace`.
type traceConfig struct {
	Keep         int                       `yaml:"keep" min:"0" doc:"Runs kept: by each gateway in memory, by all together in Redis."`
	TTL          config.Duration           `yaml:"ttl" min:"1s" doc:"How long a run is kept."`
	Content      bool                      `yaml:"content" doc:"Keep arguments and results of tool calls too, in runs and in spans."`
	OTLPEndpoint string                    `yaml:"otlp_endpoint" doc:"Base address of an OpenTelemetry receiver, OTLP over HTTP, such as http://127.0.0.1:4318; spans go to /v1/traces below it. Without it none are made."`
	OTLPHeaders  config.Map[config.Secret] `yaml:"otlp_headers" doc:"Headers of each request to otlp_endpoint."`
	Sample       float64                   `yaml:"sample" min:"0" doc:"Share of requests whose spans are sent, 0 to 1; a client's traceparent decides for its own."`
}

func (c *traceConfig) setDefaults() {
	*c = traceConfig{Keep: 1000, TTL: config.Duration(time.Hour), Sample: 1}
}

// Check reports what can't work.
func (c *traceConfig) Check(n *config.Node) {
	if c.Sample > 1 {
		n.Get("sample").Fail("want a share from 0 to 1, such as 0.1 for a tenth, got %s", n.Get("sample").Text())
	}
	for name := range c.OTLPHeaders.All() {
		if !httpguts.ValidHeaderFieldName(name) {
			c.OTLPHeaders.Node(name).Fail("%q is no header name", name)
		}
	}
	if c.OTLPEndpoint == "" {
		if c.OTLPHeaders.Len() > 0 {
			n.FailKey("otlp_headers", "has no effect without otlp_endpoint")
		}
		return
	}
	at := n.Get("otlp_endpoint")
	u, err := url.Parse(c.OTLPEndpoint)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		at.Fail("want an http or https address, such as http://127.0.0.1:4318")
	case u.RawQuery != "" || u.Fragment != "":
		at.Fail("want an address without a query: what lets the gateway in goes into otlp_headers")
	case u.User != nil:
		at.Fail("want no user and password in the address: use otlp_headers")
	case u.Port() == "4317" && !strings.HasSuffix(u.Path, "/v1/traces"):
		n.Warn("otlp_endpoint: port 4317 is that of OTLP over gRPC; over HTTP it is usually 4318")
	}
}

// tracer is the tracer that the section asks for; nil for none.
func (c *traceConfig) tracer(log *slog.Logger, reg prometheus.Registerer) (*span.Tracer, error) {
	if c.OTLPEndpoint == "" {
		return nil, nil
	}
	headers := map[string]string{}
	for name, value := range c.OTLPHeaders.All() {
		headers[name] = value.Reveal()
	}
	return span.New(span.Options{
		Endpoint: c.OTLPEndpoint, Headers: headers, Sample: c.Sample, Version: version, Logger: log, Registry: reg,
	})
}

// target is what of the section stays as it is until the next start, to be compared.
func (c *traceConfig) target() string {
	var b strings.Builder
	b.WriteString(c.OTLPEndpoint)
	for name, value := range c.OTLPHeaders.All() {
		b.WriteString("\n" + name + ":" + value.Reveal())
	}
	return b.String()
}
