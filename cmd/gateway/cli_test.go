package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/script"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"gateway": main})
}

// TestCommandLine runs the scripts of testdata/script against the command itself, in a folder and an environment of
// their own. They have two commands more:
//
//	at-work CONFIG SCRIPT   a gateway with a scripted provider, at $GATEWAY_URL until the script ends
//	ask MODEL TEXT          a question to it, with $GATEWAY_API_KEY
func TestCommandLine(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/script",
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"at-work": atWork, "ask": askAtWork},
	})
}

func atWork(ts *testscript.TestScript, _ bool, args []string) {
	s, err := script.Parse(args[1], []byte(ts.ReadFile(args[1])))
	ts.Check(err)
	upstream := httptest.NewServer(script.NewServer(s))
	ts.Defer(upstream.Close)
	c, err := check(config.Parse(args[0], ts.Getenv("WORK"), []byte(ts.ReadFile(args[0])), func(name string) (string, bool) {
		if key, ok := strings.CutSuffix(name, "_SHA256"); ok { // of the key that has that name in small letters
			sum := sha256.Sum256([]byte(strings.ToLower(key)))
			return hex.EncodeToString(sum[:]), true
		}
		return upstream.URL, name == "UPSTREAM"
	}))
	ts.Check(err)
	g, err := newGateway(c)
	ts.Check(err)
	l, err := listen(context.Background(), c.Server)
	ts.Check(err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.server.Serve(ctx, l, func() time.Duration { return time.Second }) }()
	ts.Defer(func() {
		stop()
		ts.Check(<-ended)
		g.close()
		ts.Check(c.close())
	})
	ts.Setenv("GATEWAY_URL", "http://"+l.Main.Addr().String())
	_, port, _ := strings.Cut(l.Main.Addr().String(), ":")
	ts.Setenv("PORT", port)
}

func askAtWork(ts *testscript.TestScript, _ bool, args []string) {
	body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}]}`, args[0], args[1])
	req, err := http.NewRequest(http.MethodPost, ts.Getenv("GATEWAY_URL")+"/v1/chat/completions", strings.NewReader(body))
	ts.Check(err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+ts.Getenv("GATEWAY_API_KEY"))
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	ts.Check(resp.Body.Close())
	id, _, _ := strings.Cut(strings.TrimPrefix(resp.Header.Get("X-Gateway-Trace"), `id="`), `"`)
	ts.Setenv("RUN", id)
	ts.Setenv("END", id[max(0, len(id)-6):])
	ts.Check(os.WriteFile(ts.MkAbs("last-run"), []byte(id+"\n"), 0o600))
}
