package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/toolgate/toolgate/internal/config"
)

// receiver takes spans as an OpenTelemetry collector does: OTLP over HTTP, protobuf.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	spans    []*tracepb.Span
	resource map[string]string
	header   http.Header
	raw      []byte // all that came
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		var batch collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &batch); err != nil || req.URL.Path != "/v1/traces" || req.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%s with %s: %v", req.URL.Path, req.Header.Get("Content-Type"), err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.header = req.Header
		r.raw = append(r.raw, body...)
		for _, of := range batch.ResourceSpans {
			r.resource = values(of.Resource.Attributes)
			for _, scope := range of.ScopeSpans {
				r.spans = append(r.spans, scope.Spans...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(nil)
	}))
	t.Cleanup(r.Close)
	return r
}

// all are the spans that came.
func (r *receiver) all() []*tracepb.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.spans)
}

func values(list []*common.KeyValue) map[string]string {
	m := map[string]string{}
	for _, a := range list {
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			m[a.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			m[a.Key] = fmt.Sprint(v.IntValue)
		case *common.AnyValue_BoolValue:
			m[a.Key] = fmt.Sprint(v.BoolValue)
		case *common.AnyValue_DoubleValue:
			m[a.Key] = fmt.Sprint(v.DoubleValue)
		case *common.AnyValue_ArrayValue:
			var parts []string
			for _, p := range v.ArrayValue.Values {
				parts = append(parts, p.GetStringValue())
			}
			m[a.Key] = "[" + strings.Join(parts, " ") + "]"
		}
	}
	return m
}

// tree shows spans as they stand below each other, in the order of their beginning; tools that run side by side by name.
func (r *receiver) tree() string {
	spans := r.all()
	slices.SortStableFunc(spans, func(a, b *tracepb.Span) int { return int(int64(a.StartTimeUnixNano) - int64(b.StartTimeUnixNano)) })
	for i := 1; i < len(spans); i++ {
		for j := i; j > 0 && strings.HasPrefix(spans[j].Name, "execute_tool") && strings.HasPrefix(spans[j-1].Name, "execute_tool") && spans[j].Name < spans[j-1].Name; j-- {
			spans[j], spans[j-1] = spans[j-1], spans[j]
		}
	}
	known := map[string]bool{}
	for _, s := range spans {
		known[string(s.SpanId)] = true
	}
	var b strings.Builder
	var show func(parent string, indent string)
	show = func(parent, indent string) {
		for _, s := range spans {
			above := string(s.ParentSpanId)
			if above != parent && !(parent == "" && !known[above]) {
				continue
			}
			kind := strings.ToLower(strings.TrimPrefix(s.Kind.String(), "SPAN_KIND_"))
			fmt.Fprintf(&b, "%s%s (%s)", indent, s.Name, kind)
			if above != "" && !known[above] {
				fmt.Fprintf(&b, " of the client's %x in %x", s.ParentSpanId, s.TraceId)
			}
			if s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
				b.WriteString(" FAILED" + s.Status.Message)
			}
			b.WriteString("\n")
			attributes := values(s.Attributes)
			for _, k := range slices.Sorted(maps.Keys(attributes)) {
				fmt.Fprintf(&b, "%s  . %s = %s\n", indent, k, attributes[k])
			}
			for _, e := range s.Events {
				fmt.Fprintf(&b, "%s  ! %s %v\n", indent, e.Name, values(e.Attributes))
			}
			show(string(s.SpanId), indent+"    ")
		}
	}
	show("", "")
	out := b.String()
	for re, to := range map[string]string{`(server\.port = )\d+`: "${1}PORT", `(time_to_first_chunk = )[\d.e-]+`: "${1}SECONDS", `req_[0-9A-Z]{26}`: "req_ID"} {
		out = regexp.MustCompile(re).ReplaceAllString(out, to)
	}
	return string(settle([]byte(out)))
}

// tracingGateway is one that sends its spans to where OTLP says, and has a log of its own.
func tracingGateway(t *testing.T, yaml string, env map[string]string) (*gateway, *lines) {
	t.Helper()
	c, err := check(config.Parse("gateway.yaml", t.TempDir(), []byte(yaml), func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}))
	if err != nil {
		t.Fatal(err)
	}
	log := &lines{}
	g, err := newGatewayWith(c, wiring{shared: true, log: log})
	if err != nil {
		t.Fatal(err)
	}
	g.after = c.close
	t.Cleanup(g.close)
	return g, log
}

const clientTrace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-"

// tracedServices are a provider and a tool that note the headers of a trace.
type tracedServices struct {
	*httptest.Server
	mu      sync.Mutex
	headers map[string]http.Header
}

func newTracedServices(t *testing.T) *tracedServices {
	t.Helper()
	s := &tracedServices{headers: map[string]http.Header{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.headers[r.URL.Path] = r.Header
		s.mu.Unlock()
		message := `{"role":"assistant","content":"done"}`
		if !strings.Contains(string(body), `"role":"tool"`) {
			message = `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{}"}}]}`
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":`+message+`,"finish_reason":"stop"}]}`)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *tracedServices) got(path, header string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.headers[path].Get(header)
}

const tracedConfig = `
upstreams: {up: {base_url: "${URL}/v1", api_key: sk-of-the-operator}}
tools: {look: {description: Looks., parameters: {}, http: {url: "${URL}/look"}}}
`

const hello = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`

func TestATraceGoesOnToProvidersAndTools(t *testing.T) {
	type seen struct{ provider, providerState, tool, toolState string }
	ask := func(t *testing.T, yaml string, client http.Header) (seen, *receiver) {
		t.Helper()
		s, otlp := newTracedServices(t), newReceiver(t)
		g, log := tracingGateway(t, tracedConfig+yaml, map[string]string{"URL": s.URL, "OTLP": otlp.URL})
		front := httptest.NewServer(g.server.Handler(true))
		defer front.Close()
		if status, reply := post(t, front, hello, client); status != http.StatusOK {
			t.Fatalf("%d %s\n%s", status, reply, log)
		}
		front.Close()
		g.tracer.Close()
		return seen{
			s.got("/v1/chat/completions", "Traceparent"), s.got("/v1/chat/completions", "Tracestate"),
			s.got("/look", "Traceparent"), s.got("/look", "Tracestate"),
		}, otlp
	}
	const export = `trace: {otlp_endpoint: "${OTLP}"}`
	header := func(flags string) http.Header {
		return http.Header{"Traceparent": {clientTrace + flags}, "Tracestate": {"vendor=text"}}
	}

	t.Run("without an endpoint it is the client's", func(t *testing.T) {
		got, _ := ask(t, "", header("01"))
		if want := (seen{clientTrace + "01", "vendor=text", clientTrace + "01", ""}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
	t.Run("without an endpoint and a trace there is none", func(t *testing.T) {
		if got, _ := ask(t, "", nil); got != (seen{}) {
			t.Errorf("got %+v, want nothing", got)
		}
	})
	t.Run("what is none is nobody's", func(t *testing.T) {
		got, _ := ask(t, "", http.Header{"Traceparent": {"00-secret-text-01"}})
		if got.tool != "" {
			t.Errorf("the tool got %q", got.tool)
		}
	})
	t.Run("with an endpoint they are below spans of the gateway's in the client's trace", func(t *testing.T) {
		got, otlp := ask(t, export, header("01"))
		ids := map[string]string{}
		for _, s := range otlp.all() {
			ids[fmt.Sprintf("00-%x-%x-01", s.TraceId, s.SpanId)] = s.Name
		}
		if ids[got.provider] != "POST" || ids[got.tool] != "execute_tool look" || got.providerState != "vendor=text" || got.toolState != "" {
			t.Errorf("got %+v of %v", got, ids)
		}
		if !strings.HasPrefix(got.tool, clientTrace[:36]) {
			t.Errorf("the tool's trace is %s, want the client's", got.tool)
		}
	})
	t.Run("a client that does not sample is followed", func(t *testing.T) {
		got, otlp := ask(t, export, header("00"))
		if n := len(otlp.all()); n != 0 || !strings.HasPrefix(got.tool, clientTrace[:36]) || !strings.HasSuffix(got.tool, "-00") {
			t.Errorf("%d spans came, and the tool got %s", n, got.tool)
		}
	})
	t.Run("sample 0 keeps none but those of a client that samples", func(t *testing.T) {
		const none = `trace: {otlp_endpoint: "${OTLP}", sample: 0}`
		if _, otlp := ask(t, none, nil); len(otlp.all()) != 0 {
			t.Error("spans came")
		}
		if _, otlp := ask(t, none, header("01")); len(otlp.all()) == 0 {
			t.Error("no spans came")
		}
	})
}

// TestSpansGoWhereTheFileSays looks at what stands around the spans, and that nothing that is secret is among them.
func TestSpansGoWhereTheFileSays(t *testing.T) {
	s, otlp := newTracedServices(t), newReceiver(t)
	g, log := tracingGateway(t, tracedConfig+`trace: {otlp_endpoint: "${OTLP}", otlp_headers: {X-Team: "${TEAM}"}}`,
		map[string]string{"URL": s.URL, "OTLP": otlp.URL, "TEAM": "token-of-the-receiver"})
	front := httptest.NewServer(g.server.Handler(true))
	defer front.Close()
	resp, err := http.Post(front.URL+"/v1/chat/completions?api-version=query-of-the-client", "application/json", strings.NewReader(hello))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v %v", resp, err)
	}
	resp.Body.Close()
	front.Close()
	g.tracer.Close()
	if got := otlp.header.Get("X-Team"); got != "token-of-the-receiver" {
		t.Errorf("X-Team: %q", got)
	}
	if otlp.resource["service.name"] != "toolgate" || otlp.resource["service.version"] == "" {
		t.Errorf("the resource is %v", otlp.resource)
	}
	for _, secret := range []string{"sk-of-the-operator", "token-of-the-receiver", "query-of-the-client", "/look"} {
		if strings.Contains(string(otlp.raw), secret) {
			t.Errorf("the spans hold %s", secret)
		}
	}
	if !strings.Contains(log.String(), fmt.Sprintf(`"trace_id":"%x"`, otlp.all()[0].TraceId)) {
		t.Errorf("the line of the request does not name its trace:\n%s", log)
	}
	if got := spansCounted(t, g, "exported"); got != float64(len(otlp.all())) {
		t.Errorf("%v spans are counted as exported, and %d came", got, len(otlp.all()))
	}
}

// spansCounted is what gateway_trace_spans_total says of an outcome.
func spansCounted(t *testing.T, g *gateway, outcome string) float64 {
	t.Helper()
	families, err := g.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == "gateway_trace_spans_total" && m.Label[0].GetValue() == outcome {
				return m.Counter.GetValue()
			}
		}
	}
	t.Fatalf("there is no gateway_trace_spans_total of %s", outcome)
	return 0
}

// An endpoint that hangs must not hold up requests, nor the end of the process for long.
func TestAnEndpointThatHangsHoldsNobodyUp(t *testing.T) {
	release := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer hangs.Close()
	defer close(release)
	s := newTracedServices(t)
	g, log := tracingGateway(t, tracedConfig+`trace: {otlp_endpoint: "${OTLP}"}`, map[string]string{"URL": s.URL, "OTLP": hangs.URL})
	front := httptest.NewServer(g.server.Handler(true))
	defer front.Close()
	for range 3 {
		if status, reply := post(t, front, hello, nil); status != http.StatusOK {
			t.Fatalf("%d %s", status, reply)
		}
	}
	start := time.Now()
	g.tracer.Close()
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("the end took %v, want about 2s", took)
	}
	for end := time.Now().Add(10 * time.Second); spansCounted(t, g, "failed") == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no span is counted as failed")
		}
	}
	if n := strings.Count(log.String(), "spans do not reach trace.otlp_endpoint"); n != 1 {
		t.Errorf("the log says %d times that spans do not arrive:\n%s", n, log)
	}
}
