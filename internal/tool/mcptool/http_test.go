package mcptool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolgate/toolgate/internal/tool"
)

// remote is an MCP server on loopback that can be restarted on the same address.
type remote struct {
	t       testing.TB
	address string
	server  *http.Server
	handler atomic.Pointer[http.Handler]
	before  atomic.Pointer[func(http.ResponseWriter, *http.Request) bool] // says whether it has answered

	mu       sync.Mutex
	sessions map[string]map[string]bool // by id, the values of X-User
	begun    int                        // requests that began a session
	called   int                        // requests that called a tool
}

// newRemote starts a server that behaves as mode says.
func newRemote(t testing.TB, mode string) *remote {
	t.Helper()
	r := &remote{t: t, sessions: map[string]map[string]bool{}}
	r.forget(mode)
	r.up()
	t.Cleanup(r.down)
	return r
}

// forget makes it a server that knows no session.
func (r *remote) forget(mode string) {
	is := func(word string) bool { return strings.Contains(" "+mode+" ", " "+word+" ") }
	over := make(chan struct{})
	s := newTestServer(is, over)
	r.t.Cleanup(func() {
		close(over)
		for session := range s.Sessions() {
			_ = session.Close()
		}
	})
	pick := func(*http.Request) *mcp.Server { return s }
	var h http.Handler = mcp.NewStreamableHTTPHandler(pick, &mcp.StreamableHTTPOptions{Stateless: is("stateless"), JSONResponse: is("json")})
	if is("sse") {
		h = mcp.NewSSEHandler(pick, nil)
	}
	r.handler.Store(&h)
}

// intercept lets f answer in place of the server.
func (r *remote) intercept(f func(http.ResponseWriter, *http.Request) bool) { r.before.Store(&f) }

func (r *remote) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return
	}
	q.Body = io.NopCloser(strings.NewReader(string(body)))
	r.mu.Lock()
	if id := q.Header.Get("Mcp-Session-Id"); id != "" {
		if r.sessions[id] == nil {
			r.sessions[id] = map[string]bool{}
		}
		r.sessions[id][q.Header.Get("X-User")] = true
	}
	if strings.Contains(string(body), `"method":"initialize"`) {
		r.begun++
	}
	if strings.Contains(string(body), `"method":"tools/call"`) {
		r.called++
	}
	r.mu.Unlock()
	if f := r.before.Load(); f != nil && (*f)(w, q) {
		return
	}
	(*r.handler.Load()).ServeHTTP(w, q)
}

func (r *remote) counts() (begun, called int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.begun, r.called
}

func (r *remote) up() {
	r.t.Helper()
	address := r.address
	if address == "" {
		address = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		r.t.Fatal(err)
	}
	r.address = l.Addr().String()
	r.server = &http.Server{Handler: r}
	go func(s *http.Server) { _ = s.Serve(l) }(r.server)
}

// down cuts every connection.
func (r *remote) down() { _ = r.server.Close() }

func (r *remote) yaml(more string) string { return "{url: 'http://" + r.address + "/mcp'" + more + "}" }

func TestAnAddressesToolsAreListedAndCalled(t *testing.T) {
	for _, mode := range []string{"newest stateless", "older", "older json", "older stateless", "newest json", "older sse"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := start(t, newRemote(t, mode).yaml("")).ready()
			if got := r.say("structured"); got != `{"city":"São <Paulo>","n":3}` {
				t.Errorf("structured = %q", got)
			}
			if got := r.say("progress"); got != "done" {
				t.Errorf("progress = %q", got)
			}
			if !strings.Contains(mode, "json") { // there a reply has no room for it
				until(t, "progress in the log", func() bool { return strings.Contains(r.logs.String(), "step 2") })
			}
			_, err := r.call(t.Context(), "fail", tool.Call{})
			wants(t, err, tool.Business, TypeMCP)
			_, err = r.call(t.Context(), "no_such_tool", tool.Call{})
			wants(t, err, tool.Business, TypeMCP)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, err = r.call(ctx, "wait", tool.Call{})
			wants(t, err, tool.Timeout, tool.TypeTimeout)
			if !strings.Contains(mode, "stateless") { // there the server has no way to tell which call is meant
				until(t, "the cancellation at the server", func() bool { return r.say("canceled") == "1" })
			}
			r.say("more")
			until(t, "the new tool", func() bool { _, tools := r.lists(); _, ok := named(tools, "added"); return ok })
		})
	}
}

func TestALostSessionIsMadeAgainWithinTheCall(t *testing.T) {
	tests := map[string]func(*remote){
		"404 of a server that was restarted": func(r *remote) { r.forget("older") },
		"400 as the TypeScript SDK answers": func(r *remote) {
			r.forget("older")
			r.intercept(func(w http.ResponseWriter, q *http.Request) bool {
				r.mu.Lock()
				known := r.begun > 1
				r.mu.Unlock()
				if q.Header.Get("Mcp-Session-Id") == "" || known {
					return false
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprint(w, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}`)
				return true
			})
		},
	}
	for name, lose := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			remote := newRemote(t, "older")
			r := start(t, remote.yaml(""), func(s *Server) { s.pace.poll = time.Hour }).ready()
			first := r.say("session")
			lose(remote)
			_, before := remote.counts()
			second := r.say("session")
			begun, called := remote.counts()
			if first == second || begun != 2 || called-before != 2 {
				t.Errorf("sessions %q and %q, %d begun, %d requests for one call; want two, two, and one that was refused", first, second, begun, called-before)
			}
			until(t, "the tools", func() bool { n, tools := r.lists(); return n == 3 && len(tools) > 0 })
		})
	}
}

func TestACallIsNotSentAgainForEver(t *testing.T) {
	remote := newRemote(t, "older")
	r := start(t, remote.yaml(""), func(s *Server) { s.pace.poll = time.Hour }).ready()
	remote.intercept(func(w http.ResponseWriter, q *http.Request) bool {
		if q.Header.Get("Mcp-Session-Id") == "" || q.Method != http.MethodPost {
			return false
		}
		body, _ := io.ReadAll(q.Body)
		q.Body = io.NopCloser(strings.NewReader(string(body)))
		if !strings.Contains(string(body), "tools/call") {
			return false
		}
		http.Error(w, "gone", http.StatusNotFound)
		return true
	})
	_, err := r.call(t.Context(), "echo", tool.Call{})
	wants(t, err, tool.Unavailable, tool.TypeConnect)
	if _, called := remote.counts(); called != 2 {
		t.Errorf("sent %d times, want 2", called)
	}
}

func TestAServerThatIsRestartedInACall(t *testing.T) {
	for _, mode := range []string{"older", "older json", "newest", "older sse"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			remote := newRemote(t, mode)
			r := start(t, remote.yaml("")).ready()
			time.AfterFunc(100*time.Millisecond, func() {
				remote.down()
				remote.forget(mode)
				remote.up()
			})
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			_, err := r.call(ctx, "wait", tool.Call{})
			wants(t, err, tool.Unavailable, tool.TypeConnect)
			until(t, "a call that goes well", func() bool { got, _ := r.call(t.Context(), "echo", tool.Call{}); return got == "{}" })
			until(t, "the tools", r.Ready)
		})
	}
}

func TestAServerThatIsDownTakesItsToolsAway(t *testing.T) {
	for _, mode := range []string{"older", "newest stateless"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			remote := newRemote(t, mode)
			r := start(t, remote.yaml("")).ready()
			remote.down()
			until(t, "the tools to go", func() bool { n, tools := r.lists(); return n == 2 && len(tools) == 0 })
			if r.Ready() || r.Err() == nil {
				t.Errorf("Ready() = %v, Err() = %v", r.Ready(), r.Err())
			}
			remote.forget(mode)
			remote.up()
			until(t, "the tools to come back", func() bool { n, tools := r.lists(); return n == 3 && len(tools) > 0 })
			if got := r.say("echo"); got != "{}" {
				t.Errorf("echo = %q", got)
			}
		})
	}
}

func TestEachIdentityHasASessionOfItsOwn(t *testing.T) {
	remote := newRemote(t, "older")
	r := start(t, remote.yaml(", headers: {X-User: '{caller.id}', X-Fixed: f}, forward: [x-tenant]")).ready()
	call := func(user, tenant string) tool.Call {
		return asCall(map[string]any{"id": user, "header:X-Tenant": tenant})
	}
	session := map[string]string{}
	for range 2 {
		for _, c := range [][2]string{{"ann", "1"}, {"bob", "1"}, {"ann", "2"}, {"", ""}} {
			key := c[0] + c[1]
			id, err := r.call(t.Context(), "session", call(c[0], c[1]))
			if err != nil {
				t.Fatal(err)
			}
			if session[key] != "" && session[key] != id {
				t.Errorf("%s has a second session", key)
			}
			session[key] = id
			if got, _ := r.call(t.Context(), "header", call(c[0], c[1])); got != c[0] {
				t.Errorf("%s is %q at the server", key, got)
			}
		}
	}
	seen := map[string]bool{}
	for key, id := range session {
		if seen[id] {
			t.Errorf("the session of %s is another's too", key)
		}
		seen[id] = true
	}
	remote.mu.Lock()
	defer remote.mu.Unlock()
	for id, users := range remote.sessions {
		if len(users) > 1 {
			t.Errorf("session %s was used by %v", id, users)
		}
	}
}

func TestAServerThatRefusesNobodyLearnsItsToolsFromWhoIsIntroduced(t *testing.T) {
	remote := newRemote(t, "older")
	remote.intercept(func(w http.ResponseWriter, q *http.Request) bool {
		if q.Header.Get("Authorization") == "Bearer ann" {
			return false
		}
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return true
	})
	r := start(t, remote.yaml(", forward: [Authorization]"))
	until(t, "the refusal", func() bool { return r.Err() != nil && strings.Contains(r.Err().Error(), "401") })
	bob := asCall(map[string]any{"header:Authorization": "Bearer bob"})
	if err := r.Introduce(t.Context(), bob); err == nil || r.Ready() {
		t.Errorf("Introduce(bob) = %v, Ready() = %v", err, r.Ready())
	}
	ann := asCall(map[string]any{"header:Authorization": "Bearer ann"})
	if err := r.Introduce(t.Context(), ann); err != nil || !r.Ready() {
		t.Errorf("Introduce(ann) = %v, Ready() = %v", err, r.Ready())
	}
	if n, tools := r.lists(); n != 1 || len(tools) == 0 {
		t.Errorf("told %d lists, the last of %d tools", n, len(tools))
	}
	if got, err := r.call(t.Context(), "echo", ann); got != "{}" || err != nil {
		t.Errorf("echo = %q, %v", got, err)
	}
	_, err := r.call(t.Context(), "echo", bob)
	if e := failure(t, err, tool.Failed, tool.TypeHTTPStatus); e.Status != http.StatusUnauthorized {
		t.Errorf("status = %d", e.Status)
	}
	if !r.Ready() {
		t.Error("a refused identity has taken the tools of the others away")
	}
}

func TestIdleIdentitiesLoseTheirSessions(t *testing.T) {
	remote := newRemote(t, "older")
	r := start(t, remote.yaml(", headers: {X-User: '{caller.id}'}"), func(s *Server) { s.pace.idle = 100 * time.Millisecond }).ready()
	ann := tool.Call{Caller: map[string]any{"id": "ann"}}
	first, err := r.call(t.Context(), "session", ann)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the end of the session", func() bool {
		r.guests.mu.Lock()
		defer r.guests.mu.Unlock()
		return len(r.guests.list) == 0
	})
	second, err := r.call(t.Context(), "session", ann)
	if err != nil || first == second {
		t.Errorf("session %q, %v after %q", second, err, first)
	}
	if !r.Ready() {
		t.Error("the tools are gone")
	}
}

func TestIdentitiesAreBounded(t *testing.T) {
	g := newGuests()
	header := func(i int) http.Header { return http.Header{"X-User": {strconv.Itoa(i)}} }
	var all []*guest
	for i := range mostGuests {
		a, fresh, err := g.enter(header(i))
		if err != nil || !fresh {
			t.Fatal(fresh, err)
		}
		all = append(all, a)
	}
	if _, _, err := g.enter(header(mostGuests)); !errors.Is(err, errCrowded) {
		t.Errorf("enter() while all are busy = %v, want %v", err, errCrowded)
	}
	g.leave(all[7])
	g.leave(all[3])
	if _, fresh, err := g.enter(header(mostGuests)); !fresh || err != nil {
		t.Errorf("enter() with two idle = %v, %v", fresh, err)
	}
	if len(g.list) != mostGuests || g.list[all[7].key] != nil || g.list[all[3].key] == nil {
		t.Error("it is not the one which was idle for longest that made room")
	}
}

func TestRedirectsStayOnTheHost(t *testing.T) {
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	remote := newRemote(t, "older")
	remote.intercept(func(w http.ResponseWriter, q *http.Request) bool {
		switch q.URL.Path {
		case "/mcp":
			http.Redirect(w, q, "/there", http.StatusTemporaryRedirect)
		case "/away":
			http.Redirect(w, q, other.URL, http.StatusTemporaryRedirect)
		default:
			return false
		}
		return true
	})
	r := start(t, remote.yaml(", headers: {Authorization: secret}")).ready()
	if got := r.say("echo"); got != "{}" {
		t.Errorf("echo = %q", got)
	}
	s, err := New("away", load(t, "{url: 'http://"+remote.address+"/away', headers: {Authorization: secret}}"), Options{Transport: &http.Transport{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Connect(t.Context()); !errors.Is(err, errOtherHost) {
		t.Errorf("Connect() = %v, want %v", err, errOtherHost)
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("%d requests reached the other host", n)
	}
}

func TestAnEndpointOnAnotherHostIsRefused(t *testing.T) {
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	sse := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: endpoint\ndata: %s/messages\n\n", other.URL)
		_ = http.NewResponseController(w).Flush()
		<-q.Context().Done()
	}))
	defer sse.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	s, err := New("it", load(t, "{type: sse, url: '"+sse.URL+"', headers: {Authorization: secret}}"), Options{Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Connect(t.Context()); err == nil || elsewhere.Load() != 0 {
		t.Errorf("Connect() = %v, %d requests reached the other host", err, elsewhere.Load())
	}
}

func TestAnAddressThatNeverAnswers(t *testing.T) {
	for _, only := range []string{"", "initialize", "tools/list", "subscriptions/listen"} {
		t.Run("from "+only, func(t *testing.T) {
			t.Parallel()
			mode := "older"
			if only == "subscriptions/listen" {
				mode = "newest"
			}
			remote := newRemote(t, mode)
			remote.intercept(func(_ http.ResponseWriter, q *http.Request) bool {
				body, _ := io.ReadAll(q.Body)
				q.Body = io.NopCloser(strings.NewReader(string(body)))
				if !strings.Contains(string(body), only) {
					return false
				}
				<-q.Context().Done()
				return true
			})
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			s, err := New("it", load(t, remote.yaml(", list_timeout: 300ms")), Options{Transport: transport})
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			_, err = s.Connect(t.Context())
			if only == "subscriptions/listen" { // then there is no word of changes, which is all
				if err != nil {
					t.Errorf("Connect() = %v", err)
				}
			} else if !errors.Is(err, errNoAnswer) {
				t.Errorf("Connect() = %v, want %v", err, errNoAnswer)
			}
			if took := time.Since(began); took > 4*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestAServerWithoutAStreamForNotifications(t *testing.T) {
	tests := map[string]func(http.ResponseWriter, *http.Request){
		"says so": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusMethodNotAllowed) },
		"hangs":   func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() },
		"cuts the connection": func(w http.ResponseWriter, _ *http.Request) {
			if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_ = c.Close()
			}
		},
	}
	for name, answer := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			remote := newRemote(t, "older")
			remote.intercept(func(w http.ResponseWriter, q *http.Request) bool {
				if q.Method == http.MethodGet {
					answer(w, q)
				}
				return q.Method == http.MethodGet
			})
			r := start(t, remote.yaml(", list_timeout: 2s")).ready()
			r.say("more")
			until(t, "the new tool, which nobody tells of", func() bool { _, tools := r.lists(); _, ok := named(tools, "added"); return ok })
			if n, _ := r.lists(); n != 2 || r.older.Load() {
				t.Errorf("told %d lists, want 2, in the first session", n)
			}
		})
	}
}

func TestStatusesOfACall(t *testing.T) {
	tests := []struct {
		status int
		class  tool.Class
		kind   string
	}{
		{503, tool.Unavailable, tool.TypeHTTPStatus},
		{500, tool.Unavailable, tool.TypeHTTPStatus},
		{429, tool.Unavailable, tool.TypeHTTPStatus},
		{403, tool.Failed, tool.TypeHTTPStatus},
		{413, tool.Failed, tool.TypeHTTPStatus},
	}
	for _, tt := range tests {
		t.Run(strconv.Itoa(tt.status), func(t *testing.T) {
			t.Parallel()
			remote := newRemote(t, "older")
			r := start(t, remote.yaml("")).ready()
			remote.intercept(func(w http.ResponseWriter, q *http.Request) bool {
				body, _ := io.ReadAll(q.Body)
				q.Body = io.NopCloser(strings.NewReader(string(body)))
				if !strings.Contains(string(body), "tools/call") {
					return false
				}
				w.Header().Set("Retry-After", "7")
				http.Error(w, strings.Repeat("no ", mostError), tt.status)
				return true
			})
			_, err := r.call(t.Context(), "echo", tool.Call{})
			e := failure(t, err, tt.class, tt.kind)
			if e.Status != tt.status {
				t.Errorf("status = %d", e.Status)
			}
			if tt.class == tool.Unavailable && e.RetryAfter != 7*time.Second {
				t.Errorf("RetryAfter = %v", e.RetryAfter)
			}
		})
	}
}

// The SDK read an event of a streamable HTTP server to its end, however far that was.
func TestAnEventThatIsTooLongIsNotRead(t *testing.T) {
	remote := newRemote(t, "older")
	r := start(t, remote.yaml(""), func(s *Server) { s.pace.poll = time.Hour }).ready()
	var sent atomic.Int64
	remote.intercept(func(w http.ResponseWriter, q *http.Request) bool {
		body, _ := io.ReadAll(q.Body)
		q.Body = io.NopCloser(strings.NewReader(string(body)))
		if !strings.Contains(string(body), `"name":"picture"`) {
			return false
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: ")
		for piece := strings.Repeat("x", 1<<20); sent.Load() < 64; sent.Add(1) {
			if _, err := io.WriteString(w, piece); err != nil {
				break
			}
		}
		return true
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := r.call(ctx, "picture", tool.Call{}); err == nil {
		t.Error("the call has a result")
	}
	if n := sent.Load(); n >= 64 {
		t.Errorf("%d MiB of one event were read", n)
	}
}

// A handshake that was cut when the server had given it a session left the session at the server, which cannot know.
func TestASessionThatIsGivenUpInItsHandshakeIsEnded(t *testing.T) {
	for _, hangs := range []string{"notifications/initialized", "tools/list"} {
		for how, yaml := range map[string]string{"the gateway stops": "", "its time is over": ", list_timeout: 300ms"} {
			t.Run(hangs+"/"+how, func(t *testing.T) {
				t.Parallel()
				remote := newRemote(t, "older")
				asked, ended := make(chan struct{}, 1), make(chan struct{}, 1)
				remote.intercept(func(_ http.ResponseWriter, q *http.Request) bool {
					body, _ := io.ReadAll(q.Body)
					q.Body = io.NopCloser(strings.NewReader(string(body)))
					switch {
					case q.Method == http.MethodDelete && q.Header.Get("Mcp-Session-Id") != "":
						poke(ended)
					case strings.Contains(string(body), `"method":"`+hangs+`"`):
						poke(asked)
						<-q.Context().Done()
						return true
					}
					return false
				})
				r := start(t, remote.yaml(yaml))
				<-asked
				if yaml == "" {
					r.stop()
				}
				select {
				case <-ended:
				case <-time.After(10 * time.Second):
					t.Error("the server keeps a session that nobody has")
				}
			})
		}
	}
}

// A reply that switches to another protocol has the connection for a body. It held its call for ever, and the process when
// it was to end.
func TestASwitchToAnotherProtocolIsAFailure(t *testing.T) {
	remote := newRemote(t, "older")
	r := start(t, remote.yaml("")).ready()
	remote.intercept(func(w http.ResponseWriter, q *http.Request) bool {
		body, _ := io.ReadAll(q.Body)
		q.Body = io.NopCloser(strings.NewReader(string(body)))
		if !strings.Contains(string(body), "tools/call") {
			return false
		}
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return true
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(io.Discard, c) // until the other side closes it
		return true
	})
	_, err := r.call(t.Context(), "echo", tool.Call{})
	wants(t, err, tool.Unavailable, tool.TypeConnect)
}

func TestAReplyThatIsTooLongEndsItsCallOnly(t *testing.T) {
	remote := newRemote(t, "older json")
	r := start(t, remote.yaml(""), func(s *Server) { s.pace.poll = time.Hour }).ready()
	remote.intercept(func(w http.ResponseWriter, q *http.Request) bool {
		body, _ := io.ReadAll(q.Body)
		q.Body = io.NopCloser(strings.NewReader(string(body)))
		if !strings.Contains(string(body), `"name":"picture"`) {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"%s"}]}}`, strings.Repeat("x", mostMessage))
		return true
	})
	_, err := r.call(t.Context(), "picture", tool.Call{})
	wants(t, err, tool.InvalidResult, tool.TypeDecode)
	if got := r.say("echo"); got != "{}" {
		t.Errorf("echo = %q", got)
	}
	if n, _ := r.lists(); n != 1 {
		t.Errorf("the list was told %d times, want once", n)
	}
}
