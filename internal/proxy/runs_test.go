package proxy_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/loop"
	"github.com/toolgate/toolgate/internal/trace"
)

func withKey(key string) map[string]string {
	return map[string]string{"Authorization": "Bearer " + key}
}

// listed are the models of the runs that a key is shown.
func listed(t *testing.T, front *httptest.Server, key, query string) []string {
	t.Helper()
	resp, body := fetch(t, front, "/gateway/runs"+query, "", withKey(key))
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d: %s", query, resp.StatusCode, body)
	}
	conforms(t, description(t), "/gateway/runs", resp, body)
	models := []string{}
	for _, run := range gjson.GetBytes(body, "data").Array() {
		models = append(models, run.Get("model").String())
	}
	return models
}

func TestRunsAreListed(t *testing.T) {
	front := describedServer(t)
	_, _ = fetch(t, front, chatPath, ask("m", "look", ""), nil)
	_, _ = fetch(t, front, chatPath, ask("poor", "look", ""), nil)
	_, _ = fetch(t, front, chatPath, ask("plain", "hi", ""), withKey(manyKey))
	for _, tt := range []struct {
		claim, key, query string
		want              []string
	}{
		{"a key sees its own", describedKey, "", []string{"poor", "m"}},
		{"another key sees its own", manyKey, "", []string{"plain"}},
		{"a key with runs: all sees all", bossKey, "", []string{"plain", "poor", "m"}},
		{"by model", bossKey, "?model=m", []string{"m"}},
		{"by stop reason", bossKey, "?stop=max_steps", []string{"poor"}},
		{"by tool", bossKey, "?tool=lookup", []string{"poor", "m"}},
		{"by a tool that was not called", bossKey, "?tool=pay", []string{}},
		{"of a while", bossKey, "?since=1h&limit=2", []string{"plain", "poor"}},
		{"since a time", bossKey, "?since=" + url.QueryEscape(time.Now().Add(time.Minute).Format(time.RFC3339)), []string{}},
	} {
		if diff := cmp.Diff(tt.want, listed(t, front, tt.key, tt.query)); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", tt.claim, diff)
		}
	}
}

func TestRunsOfOthersAreNotThere(t *testing.T) {
	front := describedServer(t)
	_, _ = fetch(t, front, chatPath, ask("m", "look", ""), nil)
	_, body := fetch(t, front, "/gateway/runs", "", nil)
	path := "/gateway/runs/" + gjson.GetBytes(body, "data.0.id").String()
	for key, want := range map[string]int{describedKey: http.StatusOK, bossKey: http.StatusOK, manyKey: http.StatusNotFound} {
		if resp, body := fetch(t, front, path, "", withKey(key)); resp.StatusCode != want {
			t.Errorf("%s: %d, want %d: %s", key, resp.StatusCode, want, body)
		}
	}
}

func TestRunsComePageByPage(t *testing.T) {
	front := describedServer(t)
	for range 5 {
		_, _ = fetch(t, front, chatPath, ask("plain", "hi", ""), nil)
	}
	var seen []string
	for query := "?limit=2"; query != ""; {
		_, body := fetch(t, front, "/gateway/runs"+query, "", nil)
		for _, run := range gjson.GetBytes(body, "data").Array() {
			seen = append(seen, run.Get("id").String())
		}
		next := gjson.GetBytes(body, "next").String()
		if gjson.GetBytes(body, "has_more").Bool() != (next != "") {
			t.Errorf("has_more and next differ: %s", body)
		}
		if query = ""; next != "" {
			query = "?limit=2&before=" + next
		}
	}
	if n := len(slices.Compact(slices.Clone(seen))); n != 5 || len(seen) != 5 || !slices.IsSortedFunc(seen, func(a, b string) int { return strings.Compare(b, a) }) {
		t.Errorf("the pages have %v", seen)
	}
}

func TestWhatCantBeMeantOfRunsIsRefused(t *testing.T) {
	front := describedServer(t)
	for query, want := range map[string]string{
		"modell=m":         `there is no parameter "modell": want some of model, stop, tool, since, limit, before; did you mean model?`,
		"stop=complete":    `there is no stop reason "complete": want one of completed, final`,
		"limit=0":          `limit is "0": want a number from 1 to 200`,
		"limit=201":        `want a number from 1 to 200`,
		"limit=ten":        `limit is "ten": want a number from 1 to 200`,
		"since=yesterday":  `since is "yesterday": want how long ago, such as 15m or 2h, or a time as RFC 3339 has it, such as 2`,
		"since=-5m":        `since is "-5m": want how long ago`,
		"before=run_1":     `before is "run_1": want the id of a run, such as run_01J`,
		"model=a&model=b":  `model stands there 2 times: want it once`,
		"model=%zz":        `the query can't be read: invalid URL escape "%zz"`,
		"tool=a;limit=200": `the query can't be read: invalid semicolon separator`,
	} {
		resp, body := fetch(t, front, "/gateway/runs?"+query, "", nil)
		if got := gjson.GetBytes(body, "error.message").String(); resp.StatusCode != http.StatusBadRequest || !strings.Contains(got, want) {
			t.Errorf("%s: %d: %s\nwant %s", query, resp.StatusCode, got, want)
		}
		conforms(t, description(t), "/gateway/runs", resp, body)
	}
}

// Who looks again and again is told in a few bytes that nothing has changed.
func TestRunsThatAreThereAlreadyAreNotSentAgain(t *testing.T) {
	front := describedServer(t)
	resp, _ := fetch(t, front, "/gateway/runs", "", nil)
	tag := map[string]string{"If-None-Match": resp.Header.Get("ETag")}
	resp, body := fetch(t, front, "/gateway/runs", "", tag)
	conforms(t, description(t), "/gateway/runs", resp, body)
	if resp.StatusCode != http.StatusNotModified || len(body) > 0 {
		t.Errorf("%d: %s", resp.StatusCode, body)
	}
	_, _ = fetch(t, front, chatPath, ask("plain", "hi", ""), nil)
	if resp, body = fetch(t, front, "/gateway/runs", "", tag); resp.StatusCode != http.StatusOK || gjson.GetBytes(body, "data.#").Int() != 1 {
		t.Errorf("after a run: %d: %s", resp.StatusCode, body)
	}
}

// unreachable is a store that can't be reached.
type unreachable struct{ trace.Store }

var errAway = errors.New("dial tcp redis.internal:6379: connection refused")

func (unreachable) List(context.Context, trace.Query) (trace.Page, error) {
	return trace.Page{}, errAway
}

func (unreachable) Get(context.Context, string, trace.Access) (*trace.Run, error) {
	return nil, errAway
}

func TestRunsOfAStoreThatCantBeReached(t *testing.T) {
	front := describedServerOn(t, unreachable{trace.NewMemory(1, time.Hour)})
	for path, at := range map[string]string{"/gateway/runs": "/gateway/runs", "/gateway/runs/run_1": "/gateway/runs/{id}"} {
		resp, body := fetch(t, front, path, "", nil)
		conforms(t, description(t), at, resp, body)
		fits(t, description(t), "Error", body)
		if resp.StatusCode != http.StatusServiceUnavailable || gjson.GetBytes(body, "error.code").String() != "state_unavailable" || strings.Contains(string(body), "redis") {
			t.Errorf("%s: %d: %s", path, resp.StatusCode, body)
		}
	}
}

func TestToolsSayHowOftenTheyWereCalled(t *testing.T) {
	front := describedServer(t)
	_, _ = fetch(t, front, chatPath, ask("m", "look", ""), nil)
	_, _ = fetch(t, front, chatPath, ask("m", "wire", ""), nil)
	_, body := fetch(t, front, "/gateway/tools", "", nil)
	got := map[string][2]int64{}
	for _, tool := range gjson.GetBytes(body, "data").Array() {
		got[tool.Get("name").String()] = [2]int64{tool.Get("calls").Int(), tool.Get("failed").Int()}
	}
	// One that waits for an approval has not failed.
	if diff := cmp.Diff(map[string][2]int64{"lookup": {2, 1}, "pay": {}, "wire": {1, 0}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The page can choose by every reason for which a run may end.
func TestThePageKnowsEveryStopReason(t *testing.T) {
	_, body := fetch(t, describedServer(t), "/gateway/ui/runs.js", "", nil)
	for _, stop := range loop.Stops() {
		if !strings.Contains(string(body), "'"+string(stop)+"'") {
			t.Errorf("%s is not there", stop)
		}
	}
}

// With a listener of its own for the operator, clients reach neither runs nor the page.
func TestThePageIsWhereTheOperatorsEndpointsAre(t *testing.T) {
	s := describedProxy(t, map[string]string{"UPSTREAM": "http://up.test", "SERVICE": "http://service.test", "SUM": sum(describedKey), "MANY": sum("b"), "FEW": sum("c"), "BOSS": sum("d")}, trace.NewMemory(1, time.Hour))
	for _, tt := range []struct {
		listener string
		handler  http.Handler
		path     string
		want     int
	}{
		{"clients", s.Handler(false), "/gateway/ui", http.StatusNotFound},
		{"clients", s.Handler(false), "/gateway/ui/app.js", http.StatusNotFound},
		{"clients", s.Handler(false), "/gateway/runs", http.StatusNotFound},
		{"operator", s.AdminHandler(), "/gateway/ui", http.StatusOK},
		{"operator", s.AdminHandler(), "/gateway/ui/app.js", http.StatusOK},
		{"operator", s.AdminHandler(), "/gateway/ui/", http.StatusMovedPermanently},
		{"operator", s.AdminHandler(), "/gateway/runs", http.StatusUnauthorized},
		{"both", s.Handler(true), "/gateway/ui", http.StatusOK},
	} {
		w := httptest.NewRecorder()
		tt.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, tt.path, nil))
		if w.Code != tt.want {
			t.Errorf("%s: %s is %d, want %d", tt.listener, tt.path, w.Code, tt.want)
		}
	}
}
