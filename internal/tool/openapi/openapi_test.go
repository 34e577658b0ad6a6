package openapi

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/mask"
	"github.com/toolgate/toolgate/internal/registry"
	"github.com/toolgate/toolgate/internal/tool"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// entry is a gateway.yaml with one entry, `shop`, and what became of it.
type entry struct {
	file  *config.File
	tools *config.Node
	defs  *registry.Definitions
}

// load reads an entry whose spec is doc.yaml, with the text doc, or a file that is there already.
func load(t testing.TB, yaml, doc string, env map[string]string) *entry {
	t.Helper()
	dir := t.TempDir()
	if doc != "" {
		writeTo(t, dir, doc)
	}
	return loadFrom(dir, yaml, env)
}

func loadFrom(dir, yaml string, env map[string]string) *entry {
	e := &entry{file: config.Parse("gateway.yaml", dir, []byte(yaml), func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	})}
	e.tools = Tools("shop", e.file.Root().Get("openapi").Get("shop"))
	e.defs = registry.Read(e.tools, []tool.Kind{Kind}, nil)
	if len(e.file.Problems()) == 0 {
		e.defs.CheckSecrets(e.file.Secrets())
	}
	return e
}

// good is load without a problem.
func good(t testing.TB, yaml, doc string) *entry {
	t.Helper()
	e := load(t, yaml, doc, nil)
	if p := e.file.Problems(); p != nil {
		t.Fatal(p)
	}
	return e
}

// view is what a caller of level 2 sees of the tools.
func (e *entry) view(t testing.TB, h http.RoundTripper) *registry.View {
	t.Helper()
	set, err := registry.NewSet(registry.Options{
		Definitions: e.defs, Env: tool.Env{Transport: h}, Mask: mask.New(nil),
		Logger: slog.New(slog.DiscardHandler), Metrics: registry.NewMetrics(prometheus.NewRegistry()),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	return set.View(nil, map[string]any{"level": 2})
}

// arrived is a request as the service got it.
type arrived struct {
	uri, body string
	header    http.Header
}

// service records the requests that it gets.
func service(t testing.TB) (address string, requests *[]arrived, transport *http.Transport) {
	t.Helper()
	requests = &[]arrived{}
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read the body: %v", err)
		}
		*requests = append(*requests, arrived{r.Method + " " + r.RequestURI, string(body), r.Header})
	}))
	t.Cleanup(s.Close)
	transport = &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return s.URL, requests, transport
}

// names are those of the tools in order, without the prefix.
func (e *entry) names() string {
	var list []string
	for _, name := range e.tools.Keys() {
		list = append(list, strings.TrimPrefix(name, "shop__"))
	}
	return strings.Join(list, " ")
}

// operationDoc is a document with one operation.
func operationDoc(method, path, rest string) string {
	return fmt.Sprintf(`
openapi: 3.0.3
info: {title: T, version: "1"}
servers: [{url: "https://shop.invalid/v1"}]
paths:
  %s:
    %s:
      operationId: op
      summary: Does it.
%s
      responses: {"200": {description: OK}}
`, path, method, indent(rest))
}

func indent(s string) string {
	return "      " + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n      ")
}

// parameters of the operation op, which all stand in one list.
func params(list ...string) string { return "parameters: [" + strings.Join(list, ", ") + "]" }

func jsonBody(schema string) string {
	return "requestBody: {required: true, content: {application/json: {schema: " + schema + "}}}"
}

// TestRequests calls tools and looks at what arrives.
func TestRequests(t *testing.T) {
	const strs = "{type: array, items: {type: string}}"
	tests := []struct {
		name, method, path string
		op                 string
		args               string
		uri                string
		body               string
		headers            map[string]string
		noHeaders          []string
		seen               string // the parameters as the model sees them, where they matter
	}{
		{
			name: "path, query and header", method: "get", path: "/pets/{petId}/photos/{n}",
			op: params("{name: petId, in: path, required: true, schema: {type: string}}", "{name: n, in: path, required: true, schema: {type: integer}}",
				"{name: size, in: query, schema: {type: string, enum: [small, large]}}", "{name: X-Tenant, in: header, schema: {type: string}}"),
			args: `{"petId":"a/b ?","n":"5","size":"large","X-Tenant":"t1"}`,
			uri:  "GET /v1/pets/a%2Fb%20%3F/photos/5?size=large", headers: map[string]string{"X-Tenant": "t1"},
			seen: `{"type":"object","properties":{"petId":{"type":"string"},"n":{"type":"integer"},"size":{"type":"string","enum":["small","large"]},"X-Tenant":{"type":"string"}},"required":["petId","n"]}`,
		},
		{
			name: "what is absent is not sent", method: "get", path: "/pets",
			op: params("{name: limit, in: query, schema: {type: integer}}", "{name: X-Tenant, in: header, schema: {type: string}}"), args: `{"limit":null}`,
			uri: "GET /v1/pets", noHeaders: []string{"X-Tenant"},
		},
		{
			name: "names that models can't write", method: "get", path: "/pets/{pet-type.id}",
			op: params("{name: pet-type.id, in: path, required: true, schema: {type: string}}", `{name: "filter[name]", in: query, schema: {type: string}}`,
				`{name: $top, in: query, schema: {type: integer}}`, `{name: 2nd, in: query, schema: {type: boolean}}`, `{name: "ids[]", in: query, schema: `+strs+`}`),
			args: `{"pet-type_id":"x","filter_name":"a&b","top":3,"_2nd":true,"ids":["1","2"]}`,
			uri:  "GET /v1/pets/x?filter%5Bname%5D=a%26b&%24top=3&2nd=true&ids%5B%5D=1&ids%5B%5D=2",
		},
		{
			name: "names that are the gateway's own, and one name in two places", method: "get", path: "/pets/{id}",
			op: params("{name: id, in: path, required: true, schema: {type: string}}", "{name: id, in: query, schema: {type: string}}",
				"{name: status, in: query, schema: {type: string}}", "{name: run_id, in: header, schema: {type: string}}"),
			args: `{"id":"1","query_id":"2","query_status":"open","header_run_id":"r"}`,
			uri:  "GET /v1/pets/1?id=2&status=open", headers: map[string]string{"Run_id": "r"},
		},
		{
			name: "a list repeats its item (form, which explodes by default)", method: "get", path: "/pets",
			op: params("{name: tag, in: query, schema: " + strs + "}"), args: `{"tag":["a,b","c"]}`, uri: "GET /v1/pets?tag=a%2Cb&tag=c",
		},
		{
			name: "explode: false joins by commas", method: "get", path: "/pets",
			op: params("{name: tag, in: query, explode: false, schema: " + strs + "}"), args: `{"tag":["a","c"]}`, uri: "GET /v1/pets?tag=a%2Cc",
		},
		{
			name: "a lone value is a list of one", method: "get", path: "/pets",
			op: params("{name: tag, in: query, explode: false, schema: " + strs + "}"), args: `{"tag":"a"}`, uri: "GET /v1/pets?tag=a",
		},
		{
			name: "an empty list is not sent", method: "get", path: "/pets",
			op: params("{name: tag, in: query, explode: false, schema: "+strs+"}", "{name: t, in: query, schema: "+strs+"}"), args: `{"tag":[],"t":[]}`, uri: "GET /v1/pets",
		},
		{
			name: "pipeDelimited and spaceDelimited", method: "get", path: "/pets",
			op: params("{name: p, in: query, style: pipeDelimited, schema: "+strs+"}", "{name: s, in: query, style: spaceDelimited, schema: {type: array, items: {type: integer}}}",
				"{name: e, in: query, style: pipeDelimited, explode: true, schema: "+strs+"}"),
			args: `{"p":["a","b"],"s":[1,2],"e":["x","y"]}`, uri: "GET /v1/pets?p=a%7Cb&s=1+2&e=x&e=y",
		},
		{
			name: "lists in a path and a header", method: "get", path: "/pets/{ids}",
			op:   params("{name: ids, in: path, required: true, schema: "+strs+"}", "{name: X-Tags, in: header, schema: "+strs+"}"),
			args: `{"ids":["1","2"],"X-Tags":["a","b"]}`, uri: "GET /v1/pets/1%2C2", headers: map[string]string{"X-Tags": "a,b"},
		},
		{
			name: "the properties of an object in the query", method: "get", path: "/pets",
			op:   params("{name: page, in: query, required: true, schema: {type: object, required: [size], properties: {size: {type: integer}, sort: " + strs + ", deep: {type: object}}}}"),
			args: `{"size":10,"sort":["a","b"]}`, uri: "GET /v1/pets?size=10&sort=a&sort=b",
			seen: `{"type":"object","properties":{"size":{"type":"integer"},"sort":{"type":"array","items":{"type":"string"}}},"required":["size"]}`,
		},
		{
			name: "deepObject", method: "get", path: "/pets",
			op:   params("{name: filter, in: query, style: deepObject, schema: {type: object, properties: {color: {type: string}, age: {type: integer}, tags: " + strs + "}}}"),
			args: `{"filter_color":"red","filter_age":3}`, uri: "GET /v1/pets?filter%5Bcolor%5D=red&filter%5Bage%5D=3",
		},
		{
			name: "a parameter that is JSON", method: "get", path: "/pets",
			op: params("{name: where, in: query, content: {application/json: {schema: {type: object, properties: {a: {type: array, items: {type: integer}}}}}}}",
				"{name: name, in: query, content: {application/json: {schema: {type: string}}}}"),
			args: `{"where":{"a":[1,2]},"name":"x"}`, uri: "GET /v1/pets?where=%7B%22a%22%3A%5B1%2C2%5D%7D&name=%22x%22",
		},
		{
			name: "a body's properties are arguments", method: "post", path: "/pets",
			op:   jsonBody("{type: object, required: [name], properties: {id: {type: integer, readOnly: true}, name: {type: string}, tag: {type: string, nullable: true}, n: {type: integer}}}"),
			args: `{"name":"Rex","tag":null,"n":9007199254740993}`, uri: "POST /v1/pets", body: `{"n":9007199254740993,"name":"Rex","tag":null}`,
			headers: map[string]string{"Content-Type": "application/json"},
			seen:    `{"type":"object","properties":{"name":{"type":"string"},"tag":{"type":["string","null"]},"n":{"type":"integer"}},"required":["name"]}`,
		},
		{
			name: "a body's names are its own on the wire", method: "patch", path: "/pets/{petId}",
			op: params("{name: petId, in: path, required: true, schema: {type: string}}", "{name: dry run, in: query, schema: {type: boolean}}") + "\n" +
				jsonBody("{type: object, properties: {status: {type: string}, '@type': {type: string}, a.b: {type: string, nullable: true}, a_b: {type: string}}}"),
			args: `{"petId":"1","dry_run":true,"body_status":"sold","type":"Pet","body_a_b":null,"a_b":"x"}`,
			uri:  "PATCH /v1/pets/1?dry+run=true", body: `{"@type":"Pet","a.b":null,"a_b":"x","status":"sold"}`,
		},
		{
			name: "a body whose names would clash is one argument", method: "put", path: "/pets/{id}",
			op: params("{name: id, in: path, required: true, schema: {type: string}}") + "\n" +
				"requestBody: {required: true, description: The whole pet., content: {application/json: {schema: {type: object, properties: {id: {type: string}, name: {type: string}}}}}}",
			args: `{"id":"1","body":{"id":"2","name":"x"}}`, uri: "PUT /v1/pets/1", body: `{"id":"2","name":"x"}`,
			seen: `{"type":"object","properties":{"id":{"type":"string"},"body":{"type":"object","properties":{"id":{"type":"string"},"name":{"type":"string"}},"description":"The whole pet."}},"required":["id","body"]}`,
		},
		{
			name: "a parameter called body beside one", method: "post", path: "/pets",
			op:   params("{name: body, in: query, schema: {type: string}}") + "\n" + jsonBody("{type: array, items: {type: integer}}"),
			args: `{"body":"q","request_body":[1,2]}`, uri: "POST /v1/pets?body=q", body: `[1,2]`,
		},
		{
			name: "a body that may be left out is one argument if it would need something", method: "post", path: "/pets",
			op:   "requestBody: {required: false, content: {application/json: {schema: {type: object, required: [a], properties: {a: {type: string}}}}}}",
			args: `{}`, uri: "POST /v1/pets", body: "", noHeaders: []string{"Content-Type"},
		},
		{
			name: "a choice of bodies is one argument", method: "post", path: "/pets",
			op:   jsonBody("{oneOf: [{type: object, required: [a], properties: {a: {type: string}}}, {type: object, required: [b], properties: {b: {type: string}}}]}"),
			args: `{"body":{"b":"x"}}`, uri: "POST /v1/pets", body: `{"b":"x"}`,
		},
		{
			name: "a free object is one argument", method: "post", path: "/pets",
			op: jsonBody("{type: object, additionalProperties: {type: string}}"), args: `{"body":{"any":"x"}}`, uri: "POST /v1/pets", body: `{"any":"x"}`,
		},
		{
			name: "allOf is put together", method: "post", path: "/pets",
			op:   jsonBody("{allOf: [{type: object, required: [id, a], properties: {id: {type: integer, readOnly: true}, a: {type: string}}}, {properties: {b: {type: integer}}}]}"),
			args: `{"a":"x","b":1}`, uri: "POST /v1/pets", body: `{"a":"x","b":1}`,
			seen: `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a"]}`,
		},
		{
			name: "merge patch has its own type", method: "patch", path: "/pets",
			op:   "requestBody: {content: {application/merge-patch+json: {schema: {type: object, properties: {a: {type: string, nullable: true}}}}}}",
			args: `{"a":null}`, uri: "PATCH /v1/pets", body: `{"a":null}`, headers: map[string]string{"Content-Type": "application/merge-patch+json"},
		},
		{
			name: "a form", method: "post", path: "/pets/{id}",
			op: params("{name: id, in: path, required: true, schema: {type: string}}") + "\n" +
				"requestBody: {content: {application/x-www-form-urlencoded: {schema: {type: object, properties: {id: {type: string}, tags: " + strs + ", status: {type: string}, 'o:tag': {type: string}}}}}}",
			args: `{"path_id":"1","id":"2","tags":["a","b"],"body_status":"x y","o_tag":"t"}`,
			uri:  "POST /v1/pets/1", body: "id=2&o%3Atag=t&status=x+y&tags=a&tags=b", headers: map[string]string{"Content-Type": "application/x-www-form-urlencoded"},
		},
		{
			name: "no body", method: "post", path: "/pets/{id}/sell", op: params("{name: id, in: path, required: true, schema: {type: string}}"),
			args: `{"id":"1"}`, uri: "POST /v1/pets/1/sell", body: "", headers: map[string]string{"Content-Length": "0"}, noHeaders: []string{"Content-Type"},
		},
		{
			name: "a body of nothing that the client sets", method: "post", path: "/pets",
			op:   jsonBody("{type: object, properties: {id: {type: integer, readOnly: true}}}"),
			args: `{}`, uri: "POST /v1/pets", body: "{}",
		},
		{
			name: "DELETE may have a body", method: "delete", path: "/pets", op: jsonBody("{type: object, properties: {ids: {type: array, items: {type: integer}}}}"),
			args: `{"ids":[1]}`, uri: "DELETE /v1/pets", body: `{"ids":[1]}`,
		},
		{
			name: "headers that are not the model's", method: "get", path: "/pets",
			op: params("{name: Authorization, in: header, required: true, schema: {type: string}}", "{name: accept, in: header, schema: {type: string}}",
				"{name: X-Level, in: header, required: true, schema: {type: string}}", "{name: api_key, in: query, required: true, schema: {type: string}}"),
			args: `{}`, uri: "GET /v1/pets?api_key=s3cr3tkey", headers: map[string]string{"X-Level": "2"}, noHeaders: []string{"Authorization", "Accept"},
			seen: `{"type":"object","properties":{}}`,
		},
		{
			name: "a path parameter that nobody described", method: "get", path: "/pets/{id}", op: "description: D.",
			args: `{"id":"7"}`, uri: "GET /v1/pets/7",
		},
		{
			name: "what looks like a placeholder of the gateway is an argument", method: "get", path: "/pets/{caller.level}/{run_id}", op: "description: D.",
			args: `{"caller_level":"9","path_run_id":"8"}`, uri: "GET /v1/pets/9/8",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			base, got, transport := service(t)
			e := good(t, "openapi: {shop: {spec: doc.yaml, base_url: "+base+`/v1/, headers: {x-level: "{caller.level}"}, auth: {query: {name: api_key, value: s3cr3tkey}}}}`,
				operationDoc(tt.method, tt.path, tt.op))
			v := e.view(t, transport)
			p := v.Prepare("shop__op", json.RawMessage(tt.args))
			if p.Refusal != nil {
				t.Fatal(p.Refusal.Text)
			}
			if _, err := v.Run(t.Context(), p, registry.Scope{RunID: "r", Key: "k"}); err != nil {
				t.Fatal(err)
			}
			if len(*got) != 1 {
				t.Fatalf("%d requests arrived, want 1", len(*got))
			}
			r := (*got)[0]
			uri := strings.TrimSuffix(strings.Replace(r.uri, "api_key=s3cr3tkey", "", 1), "?")
			if strings.Contains(tt.uri, "api_key") {
				uri = r.uri
			}
			if uri = strings.TrimSuffix(uri, "&"); uri != tt.uri {
				t.Errorf("arrived %s, want %s", uri, tt.uri)
			}
			if r.body != tt.body {
				t.Errorf("body %s, want %s", r.body, tt.body)
			}
			for name, want := range tt.headers {
				if h := r.header.Get(name); h != want {
					t.Errorf("header %s is %q, want %q", name, h, want)
				}
			}
			for _, name := range tt.noHeaders {
				if h, ok := r.header[name]; ok {
					t.Errorf("header %s is %q, want none", name, h)
				}
			}
			if seen := string(e.tools.Get("shop__op").Get("parameters").JSON()); tt.seen != "" && seen != tt.seen {
				t.Errorf("the model sees\n%s, want\n%s", seen, tt.seen)
			}
		})
	}
}

// TestEveryArgumentIsChecked sends what the schema refuses.
func TestArgumentsAreChecked(t *testing.T) {
	base, got, transport := service(t)
	e := good(t, "openapi: {shop: {spec: doc.yaml, base_url: "+base+"}}", operationDoc("get", "/pets",
		params("{name: tag, in: query, required: true, explode: false, schema: {type: array, maxItems: 2, items: {type: string, enum: [a, b, c]}}}")))
	v := e.view(t, transport)
	for _, args := range []string{`{}`, `{"tag":["x"]}`, `{"tag":["a","b","c"]}`} {
		if p := v.Prepare("shop__op", json.RawMessage(args)); p.Refusal == nil || !strings.Contains(p.Refusal.Text, "tag") {
			t.Errorf("Prepare(%s) = %+v, want a refusal that names tag", args, p)
		}
	}
	if len(*got) > 0 {
		t.Errorf("%v arrived, want nothing", *got)
	}
}

// wantAll fails the test where one of the wanted parts is missing.
func wantAll(t *testing.T, what, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%s lack %q:\n%s", what, w, text)
		}
	}
}

func texts(ps config.Problems) string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// nilTransport is for tools that are not called.
type nilTransport struct{}

func (nilTransport) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, http.ErrUseLastResponse
}
