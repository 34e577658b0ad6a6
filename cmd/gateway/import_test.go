package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/adopt"
	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/registry"
)

// imported are curl commands as they stand in documentation and come from browsers. want is what the YAML has; not is what
// it must not have.
var imported = []struct {
	name, command string
	want, not     []string
	variables     []string
	notes         []string
}{
	{
		name: "GitHub: a bearer token of a variable, segments in braces, continued lines",
		command: `curl -L \
  -X POST \
  -H "Accept: application/vnd.github+json" \
  -H "Authorization: Bearer <YOUR-TOKEN>" \
  -H "X-GitHub-Api-Version: 2022-11-28" \
  https://api.github.com/repos/{owner}/{repo}/issues \
  -d '{"title":"Found a bug","body":"I'\''m having a problem with this.","milestone":1,"labels":["bug"]}'`,
		want: []string{
			"post_repos_issues:", "url: https://api.github.com/repos/{owner}/{repo}/issues", "bearer: ${GITHUB_TOKEN}", "redirects: same_host",
			"milestone: {type: integer, description: For example 1}", `labels: {type: array, items: {type: string}, description: 'For example ["bug"]'}`,
			"title: '{title}'", "For example I'm having a problem with this.", "X-GitHub-Api-Version: \"2022-11-28\"",
		},
		not:       []string{"YOUR-TOKEN"},
		variables: []string{"GITHUB_TOKEN"},
		notes:     []string{"--location"},
	},
	{
		name:      "OpenWeather: the key in the query",
		command:   `curl "https://api.openweathermap.org/data/2.5/weather?lat=44.34&lon=10&units=metric&appid=0123456789abcdef"`,
		want:      []string{"get_data_weather:", "lat: {type: number, description: For example 44.34}", "lon: {type: integer", "units: {type: string", "auth:\n        query: {name: appid, value: '${OPENWEATHERMAP_APPID}'}"},
		not:       []string{"0123456789abcdef"},
		variables: []string{"OPENWEATHERMAP_APPID"},
	},
	{
		name:      "Stripe: the key as the user of basic authentication, a form with brackets",
		command:   `curl https://api.stripe.com/v1/customers -u "sk_test_4eC39HqLyjWDarjtT1zdp7dc:" -d name="Jenny Rosen" --data-urlencode email=jenny@example.com -d "metadata[order_id]=6735"`,
		want:      []string{"post_customers:", `basic: {username: '${STRIPE_USER}', password: ""}`, "body: name={name}&email={email}&metadata[order_id]={metadata_order_id}", "content_type: application/x-www-form-urlencoded", "For example jenny@example.com"},
		not:       []string{"sk_test"},
		variables: []string{"STRIPE_USER"},
	},
	{
		name:      "OpenAI: a list of objects is one parameter",
		command:   "curl https://api.openai.com/v1/chat/completions \\\n  -H \"Content-Type: application/json\" \\\n  -H \"Authorization: Bearer $OPENAI_API_KEY\" \\\n  -d '{\"model\": \"gpt-5-mini\", \"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"temperature\": 0.7, \"max_tokens\": 10, \"stream\": false}'\n",
		want:      []string{"post_chat_completions:", "bearer: ${OPENAI_API_KEY}", "messages: {type: array, items: {type: object, properties: {role: {type: string}, content: {type: string}}}", "temperature: {type: number", "stream: {type: boolean", "max_tokens: '{max_tokens}'"},
		variables: []string{"OPENAI_API_KEY"},
	},
	{
		name: "a browser's copy: its headers and cookies go, its $'..' is read",
		command: `curl 'https://shop.example.com/api/v2/search?q=caf%C3%A9&page=2' --compressed -X POST \
  -H 'User-Agent: Mozilla/5.0 (X11)' -H 'Accept: */*' -H 'Accept-Encoding: gzip, deflate' -H 'Origin: https://shop.example.com' \
  -H 'Cookie: session=s3cr3tsession' -H 'Sec-Fetch-Mode: cors' -H 'X-CSRF-Token: csrf-of-mine' -H 'content-type: application/json' \
  --data-raw $'{"filter":{"text":"it\'s \\u00e9"},"from":"https://shop.example.com/start"}'`,
		want:      []string{"post_search:", "q: {type: string, description: For example café}", "page: {type: integer", "text: {type: string, description: For example it's é}", "from: {type: string}", "header: {name: X-CSRF-Token, value: '${SHOP_EXAMPLE_CSRF_TOKEN}'}"},
		not:       []string{"s3cr3tsession", "csrf-of-mine", "Mozilla", "Sec-Fetch", "/start"},
		variables: []string{"SHOP_EXAMPLE_CSRF_TOKEN"},
		notes:     []string{"Cookie is left out", "User-Agent, Accept-Encoding, Origin, Sec-Fetch-Mode"},
	},
	{
		name:    "-G puts the data into the query; short options in one word",
		command: `curl -sSG https://nominatim.openstreetmap.org/search -d format=json --data-urlencode 'q=Unter den Linden 1' -m5`,
		want:    []string{"get_search:", "format: '{format}'", "For example Unter den Linden 1", "timeout: 5s"},
		not:     []string{"body:"},
	},
	{
		name:    "ids in the path: digits, a UUID, a colon",
		command: `curl -XDELETE http://localhost:8080/v1/users/42/orders/0a1b2c3d-0000-4000-8000-0a1b2c3d4e5f/:line`,
		want:    []string{"delete_users_orders:", "url: http://localhost:8080/v1/users/{user_id}/orders/{order_id}/{line}", "user_id: {type: integer, description: For example 42}", "order_id: {type: string", "method: DELETE"},
	},
	{
		name:      "Jira: basic authentication, nested names that collide",
		command:   `curl --request PUT --url 'https://your-domain.atlassian.net/rest/api/3/issue/10001' --user 'email@example.com:api_token_of_mine' --header 'Accept: application/json' --header 'Content-Type: application/json' --data '{"fields": {"project": {"key": "PROJ", "name": "A"}, "assignee": {"name": "B", "email": null}, "watchers": []}}'`,
		want:      []string{"put_rest_issue:", "issue_id: {type: integer", "basic: {username: '${YOUR_DOMAIN_ATLASSIAN_USER}', password: '${YOUR_DOMAIN_ATLASSIAN_PASSWORD}'}", "key: '{key}'", "name: '{name}'", "name: '{assignee_name}'", "email: null", "watchers: []", "method: PUT"},
		not:       []string{"api_token_of_mine", "email@example.com"},
		variables: []string{"YOUR_DOMAIN_ATLASSIAN_USER", "YOUR_DOMAIN_ATLASSIAN_PASSWORD"},
	},
	{
		name:      "two keys in headers, and secrets of the body",
		command:   `curl --json '{"client_secret":"cs-of-mine","grant_type":"password","password":"pw-of-mine"}' -H 'DD-API-KEY: dd-of-mine' -H 'DD-APPLICATION-KEY: app-of-mine' https://api.datadoghq.co.uk/api/v1/token`,
		want:      []string{"header: {name: DD-API-KEY, value: '${DATADOGHQ_DD_API_KEY}'}", "DD-APPLICATION-KEY: ${DATADOGHQ_DD_APPLICATION_KEY}", "client_secret: ${DATADOGHQ_CLIENT_SECRET}", "grant_type: '{grant_type}'", "Accept: application/json"},
		not:       []string{"cs-of-mine", "pw-of-mine", "dd-of-mine", "app-of-mine"},
		variables: []string{"DATADOGHQ_DD_API_KEY", "DATADOGHQ_DD_APPLICATION_KEY", "DATADOGHQ_CLIENT_SECRET", "DATADOGHQ_PASSWORD"},
	},
	{
		name:      "GraphQL: the query stays, its variables are parameters",
		command:   `curl -k -X POST -H 'Authorization: token ghp_abcdefghijklmnopqrstuvwxyz0123456789' -d '{"query":"query($login:String!){user(login:$login){name}}","variables":{"login":"octocat"}}' https://api.github.com/graphql`,
		want:      []string{"post_graphql:", "login: '{login}'", "{{name}}", "value: 'token ${GITHUB_TOKEN}'"},
		not:       []string{"ghp_"},
		variables: []string{"GITHUB_TOKEN"},
		notes:     []string{"--insecure is left out", "GraphQL"},
	},
	{
		name:      "a here-document, a pipe behind it and a base address of a variable",
		command:   "curl -s -X PATCH \"$BASE_URL/items/$ITEM_ID\" -d @- <<EOF | jq .id\n{\"state\": \"done\", \"note\": \"so be it\"}\nEOF\n",
		want:      []string{"patch_items:", "url: ${BASE_URL}/items/{item_id}", "state: '{state}'", "note: {type: string, description: For example so be it}"},
		variables: []string{"BASE_URL"},
		notes:     []string{"jq"},
	},
	{
		name:      "Telegram and Slack: a token in the path",
		command:   `curl -X POST https://api.telegram.org/bot110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw/sendMessage -d chat_id=12345 -d text=Hello`,
		want:      []string{"post_sendmessage:", "url: https://api.telegram.org/bot${TELEGRAM_TOKEN}/sendMessage", "chat_id: {type: integer"},
		not:       []string{"AAHdq"},
		variables: []string{"TELEGRAM_TOKEN"},
	},
	{
		name:    "repeated items are a list, bare ones and braces stay",
		command: `curl 'https://api.example.com/find?tag=a&tag=b&ids[]=1&ids[]=2&page_token=abc&pretty' -H 'X-Template: {name}'`,
		want:    []string{"tag: {type: array, items: {type: string}", "ids[]: '{ids}'", "page_token: {type: string, description: For example abc}", "url: https://api.example.com/find?pretty", "X-Template: '{{name}}'"},
	},
	{
		name:      "a host of a variable",
		command:   `curl "http://$SERVER:8080/health"`,
		want:      []string{"get_health:", "url: http://${SERVER}:8080/health"},
		variables: []string{"SERVER"},
	},
	{
		name:      "words in place of credentials, and a token that stands twice",
		command:   `curl -u USERNAME:PASSWORD -H 'X-Api-Key: k3y-of-mine' -H 'X-Again: is k3y-of-mine' https://api.example.com/USERNAME -d 'password reset k3y-of-mine'`,
		want:      []string{"/USERNAME", "X-Again: is ${EXAMPLE_API_KEY}", "body: password reset ${EXAMPLE_API_KEY}", "password: '${EXAMPLE_PASSWORD}'"},
		not:       []string{"k3y-of-mine"},
		variables: []string{"EXAMPLE_USER", "EXAMPLE_PASSWORD", "EXAMPLE_API_KEY"},
	},
	{
		name:      "credentials in the address",
		command:   `curl https://ann:pw-of-ann@intern.example.com:8443/`,
		want:      []string{"get_intern_example:", "url: https://intern.example.com:8443/", "username: '${INTERN_EXAMPLE_USER}'"},
		not:       []string{"pw-of-ann"},
		variables: []string{"INTERN_EXAMPLE_USER", "INTERN_EXAMPLE_PASSWORD"},
	},
}

func TestImportedCurlIsTaken(t *testing.T) {
	for _, tt := range imported {
		t.Run(tt.name, func(t *testing.T) {
			d, err := adopt.Curl(tt.command, "")
			if err != nil {
				t.Fatal(err)
			}
			got := string(d.YAML)
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("the definition lacks %q", want)
				}
			}
			for _, not := range tt.not {
				if strings.Contains(got, not) {
					t.Errorf("the definition has %q", not)
				}
			}
			var names []string
			for _, v := range d.Variables {
				names = append(names, v.Name)
			}
			if !slices.Equal(names, tt.variables) {
				t.Errorf("variables = %q, want %q", names, tt.variables)
			}
			notes := strings.Join(d.Notes, "\n")
			for _, want := range tt.notes {
				if !strings.Contains(notes, want) {
					t.Errorf("notes lack %q:\n%s", want, notes)
				}
			}
			warnings := taken(t, got, names)
			if !strings.Contains(warnings, "short-description: the description says too little") {
				t.Errorf("no warning tells of the description:\n%s", warnings)
			}
			if t.Failed() {
				t.Logf("the definition is:\n%s", got)
			}
		})
	}
}

// taken asserts that a configuration with these tools is valid, up to a gateway made of it, and is its warnings.
func taken(t *testing.T, tools string, variables []string) string {
	t.Helper()
	c, err := check(config.Parse("gateway.yaml", t.TempDir(), []byte("upstreams: {up: {base_url: \"https://up.example.com/v1\"}}\n"+tools), func(name string) (string, bool) {
		if strings.HasSuffix(name, "_URL") {
			return "https://base.example.com", slices.Contains(variables, name)
		}
		return "value-of-" + strings.ToLower(name), slices.Contains(variables, name)
	}))
	if err != nil {
		t.Errorf("the definition is refused: %v\n%s", err, tools)
		return ""
	}
	g, err := newGateway(c)
	if err != nil {
		t.Errorf("no gateway comes of it: %v\n%s", err, tools)
		return ""
	}
	g.close()
	return c.warnings.Error()
}

func TestImportRefusesWhatNoToolCanDo(t *testing.T) {
	for command, want := range map[string]string{
		`curl -F file=@photo.jpg https://api.example.com/upload`:       "-F (a multipart form) can't be carried over",
		`curl -T photo.jpg https://api.example.com/upload`:             "-T (an upload) can't be carried over",
		`curl -d @body.json https://api.example.com/x`:                 "-d @FILE can't be carried over: write the data into the command",
		`curl --frobnicate https://api.example.com/x`:                  "--frobnicate is not known here",
		`curl -X PURGE https://api.example.com/x`:                      "-X PURGE can't be carried over",
		`curl https://a.example.com https://b.example.com`:             "two URLs",
		`curl https://{subdomain}.example.com/x`:                       "the host of the URL is no host",
		`curl -H "Authorization: Bearer $(cat token)" https://a.b.com`: "command substitution",
		`curl 'https://api.example.com/x`:                              "reading the command as a shell does",
		`wget https://api.example.com/x`:                               "no curl command",
		`curl -s`:                                                      "no URL",
		`curl ftp://example.com/x`:                                     "want http:// or https://",
		`curl https://api.example.com -H`:                              "-H wants a value",
	} {
		if _, err := adopt.Curl(command, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Import(%q) = %v, want %q", command, err, want)
		}
	}
}

// A tool that is called with the command's own values sends what curl would.
func TestImportedCurlSendsTheSame(t *testing.T) {
	for _, tt := range []struct{ command, arguments, want string }{
		{
			`curl "$URL/users/42/orders?state=a%26b&limit=10&tag=x&tag=y&key=of-mine" -H 'X-Mode: {fast}'`,
			`{"user_id":42,"state":"a&b","limit":10,"tag":["x","y"]}`,
			`GET /users/42/orders?state=a%26b&limit=10&tag=x&tag=y&key=secret-of-the-test X-Mode={fast} Content-Type=`,
		},
		{
			`curl -X PUT "$URL/a%20b" -H 'Content-Type: application/vnd.api+json' -d '{"n": 1.50, "deep": {"list": [1], "none": null, "on": true}, "password": "of-mine", "t": "q\"{x}"}'`,
			`{"n":1.5,"list":[1],"on":true,"t":"q\"{x}"}`,
			`PUT /a%20b X-Mode= Content-Type=application/vnd.api+json {"n":1.5,"deep":{"list":[1],"none":null,"on":true},"password":"secret-of-the-test","t":"q\"{x}"}`,
		},
		{
			`curl "$URL/form" -d 'q=a b' --data-urlencode 'c=d&e' -d 'user[id]=7'`,
			`{"q":"a b","c":"d&e","user_id":7}`,
			`POST /form X-Mode= Content-Type=application/x-www-form-urlencoded q=a+b&c=d%26e&user[id]=7`,
		},
		{
			`curl "$URL/text" -H 'Content-Type: text/plain' -d 'cost: ${PRICE} {x}'`,
			`{}`,
			`POST /text X-Mode= Content-Type=text/plain cost: secret-of-the-test {x}`,
		},
	} {
		var got string
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			got = strings.TrimSpace(fmt.Sprintf("%s %s X-Mode=%s Content-Type=%s %s", r.Method, r.RequestURI, r.Header.Get("X-Mode"), r.Header.Get("Content-Type"), body))
		}))
		defer server.Close()
		d, err := adopt.Curl(strings.Replace(tt.command, "$URL", server.URL, 1), "sent")
		if err != nil {
			t.Fatal(err)
		}
		c, err := check(config.Parse("gateway.yaml", t.TempDir(), []byte("upstreams: {up: {base_url: \"https://up.example.com/v1\"}}\n"+string(d.YAML)), func(string) (string, bool) {
			return "secret-of-the-test", true
		}))
		if err != nil {
			t.Fatal(err)
		}
		g, err := newGateway(c)
		if err != nil {
			t.Fatal(err)
		}
		view := g.tools.View(nil, nil)
		p := view.Prepare("sent", json.RawMessage(chat.Quote(tt.arguments)))
		if p.Refusal != nil {
			t.Fatalf("%s: %s\n%s", tt.command, p.Refusal.Text, d.YAML)
		}
		if _, err := view.Run(t.Context(), p, registry.Scope{RunID: "r", Key: "k", Attempt: 1, Confirmed: true}); err != nil {
			t.Error(err)
		}
		g.close()
		if got != tt.want {
			t.Errorf("%s\nsent %s\nwant %s\n%s", tt.command, got, tt.want, d.YAML)
		}
	}
}

func TestImportedServersAreTaken(t *testing.T) {
	for _, tt := range []struct {
		name, data string
		want, not  []string
		variables  []string
		notes      string
	}{
		{
			"a program with a token in its environment",
			`{"mcpServers": {"github": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-github"], "env": {"GITHUB_PERSONAL_ACCESS_TOKEN": "ghp-of-mine", "LOG_LEVEL": "info", "PORT": 1}, "disabled": false}}}`,
			[]string{"github:\n    command: npx", `args: [-y, '@modelcontextprotocol/server-github']`, "GITHUB_PERSONAL_ACCESS_TOKEN: ${GITHUB_PERSONAL_ACCESS_TOKEN}", "LOG_LEVEL: info"},
			[]string{"ghp-of-mine", "disabled"},
			[]string{"GITHUB_PERSONAL_ACCESS_TOKEN"},
			"github.disabled is left out",
		},
		{
			"a server at an address, as editors have it",
			`{"servers": {"My Tickets": {"type": "http", "url": "https://tickets.example.com/mcp", "headers": {"Authorization": "Bearer of-mine", "X-Team": "blue"}}}}`,
			[]string{"My_Tickets:", "url: https://tickets.example.com/mcp", "Authorization: Bearer ${MY_TICKETS_TOKEN}", "X-Team: blue"},
			[]string{"of-mine"},
			[]string{"MY_TICKETS_TOKEN"},
			"",
		},
		{
			"the inner mapping alone, with a key in its address",
			`{"maps": {"serverUrl": "https://maps.example.com/mcp?api_key=of-mine"}}`,
			[]string{"url: ${MAPS_URL}"},
			[]string{"of-mine"},
			[]string{"MAPS_URL"},
			"",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := adopt.MCP(tt.data)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range tt.want {
				if !strings.Contains(string(s.YAML), want) {
					t.Errorf("the YAML lacks %q:\n%s", want, s.YAML)
				}
			}
			for _, not := range tt.not {
				if strings.Contains(string(s.YAML), not) {
					t.Errorf("the YAML has %q:\n%s", not, s.YAML)
				}
			}
			var names []string
			for _, v := range s.Variables {
				names = append(names, v.Name)
			}
			if !slices.Equal(names, tt.variables) {
				t.Errorf("variables = %q, want %q", names, tt.variables)
			}
			if notes := strings.Join(s.Notes, "\n"); !strings.Contains(notes, tt.notes) {
				t.Errorf("notes = %q, want %q", notes, tt.notes)
			}
			taken(t, string(s.YAML), names)
		})
	}
	for data, want := range map[string]string{
		`{"mcpServers": {"a": {"command": "x", "args": ["--api-key", "of-mine"]}}}`: "the args hold a secret",
		`{"mcpServers": {}}`: "want a JSON object",
		`[`:                  "reading the JSON",
	} {
		if _, err := adopt.MCP(data); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "of-mine") {
			t.Errorf("MCP(%s) = %v, want %q", data, err, want)
		}
	}
}
