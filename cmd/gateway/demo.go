package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"
	"golang.org/x/sync/errgroup"

	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/proxy"
	"github.com/toolgate/toolgate/internal/script"
	"github.com/toolgate/toolgate/internal/trace"
)

var (
	//go:embed demo.yaml
	demoConfig []byte
	//go:embed demo-script.yaml
	demoScript []byte
)

func demoCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show the gateway at work: a scripted model, a small HTTP service and the gateway in one process",
		Long: `Show the gateway at work, with no key and no network: a scripted model, a small real HTTP service
and the gateway start in this process, one question is asked over HTTP, and what happened is printed.
Then it keeps serving until it is interrupted.`,
		Example: "  gateway demo\n  gateway demo --once",
		Args:    noArgs,
	}
	once := cmd.Flags().Bool("once", false, "end after the question")
	addr := cmd.Flags().String("listen", demoAddress, "address of the gateway, on this machine")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return demo(cmd.Context(), cmd.OutOrStdout(), *addr, *once)
	}
	return cmd
}

// demo serves the demonstration until ctx ends, or with once until its question is answered.
func demo(ctx context.Context, out io.Writer, addr string, once bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	listeners := make([]net.Listener, 3)
	if !proxy.Loopback(addr) {
		return usageError{fmt.Errorf("--listen %s: the demo asks for no key, so it is served on this machine alone; want an address such as %s", addr, demoAddress)}
	}
	for i, a := range []string{addr, "127.0.0.1:0", "127.0.0.1:0"} {
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", a)
		if a == demoAddress && errors.Is(err, syscall.EADDRINUSE) { // somebody is at the usual port
			l, err = lc.Listen(ctx, "tcp", "127.0.0.1:0")
		}
		if err != nil {
			return err
		}
		defer l.Close() // closed by its server already, but for an error on the way
		listeners[i] = l
	}
	s, err := script.Parse("demo-script.yaml", demoScript)
	if err != nil {
		return err
	}
	g, err := demoGateway(listeners)
	if err != nil {
		return err
	}
	defer g.close()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return g.server.Serve(ctx, proxy.Listeners{Main: listeners[0]}, func() time.Duration { return time.Second })
	})
	group.Go(func() error { return serveUntil(ctx, listeners[1], script.NewServer(s)) })
	group.Go(func() error { return serveUntil(ctx, listeners[2], http.HandlerFunc(serveCEP)) })
	err = ask(ctx, out, "http://"+listeners[0].Addr().String())
	if err != nil || once {
		cancel()
	} else {
		fmt.Fprintf(out, "see runs    http://%s/gateway/ui\n\nserving; Ctrl-C ends\n", listeners[0].Addr())
	}
	return errors.Join(err, group.Wait())
}

// demoGateway is the gateway of demo.yaml, at the listeners of gateway, model and service.
func demoGateway(l []net.Listener) (*gateway, error) {
	c, err := check(config.Parse("demo.yaml", ".", demoConfig, func(name string) (string, bool) {
		at := map[string]string{"LISTEN": l[0].Addr().String(), "UPSTREAM": "http://" + l[1].Addr().String(), "SERVICE": "http://" + l[2].Addr().String()}[name]
		return at, at != ""
	}))
	if err != nil {
		return nil, err
	}
	g, err := newGateway(c)
	if err == nil {
		g.after = c.close
	}
	return g, err
}

const (
	demoAddress  = "127.0.0.1:8080"
	demoQuestion = "Which city has the postal code 01001-000?"
	demoRequest  = `{"model":"demo","messages":[{"role":"user","content":"` + demoQuestion + `"}]}`
)

// ask asks the gateway one question as any client would, and prints what happened.
func ask(ctx context.Context, out io.Writer, base string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", strings.NewReader(demoRequest))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(trace.Header, "full")
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the gateway answered %s: %s", resp.Status, body)
	}
	fmt.Fprintf(out, "question    %s\n", demoQuestion)
	for _, c := range gjson.GetBytes(body, "gateway.calls").Array() {
		fmt.Fprintf(out, "tool call   %s, %d ms, %s\n", c.Get("tool"), c.Get("ms").Int(), c.Get("outcome"))
	}
	fmt.Fprintf(out, "answer      %s\n", gjson.GetBytes(body, "choices.0.message.content"))
	fmt.Fprintf(out, "trace       %s: %s\n", trace.Header, resp.Header.Get(trace.Header))
	fmt.Fprintf(out, "\ntry it      curl -i %s/v1/chat/completions -H 'Content-Type: application/json' \\\n              -d '%s'\n", base, demoRequest)
	return nil
}

// demoPlaces are the postal codes that the demo's service knows.
var demoPlaces = map[string][3]string{
	"01001000": {"São Paulo", "SP", "Praça da Sé"},
	"20040002": {"Rio de Janeiro", "RJ", "Avenida Rio Branco"},
	"70150900": {"Brasília", "DF", "Praça dos Três Poderes"},
}

// serveCEP is the demo's service: GET /cep/{8 digits}.
func serveCEP(w http.ResponseWriter, r *http.Request) {
	cep := strings.TrimPrefix(r.URL.Path, "/cep/")
	w.Header().Set("Content-Type", "application/json")
	place, known := demoPlaces[cep]
	if !known {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write(chat.ErrorBody("no such postal code", "not_found", "", ""))
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]string{
		"cep": cep, "localidade": place[0], "uf": place[1], "logradouro": place[2],
		"complemento": "lado ímpar", "ibge": "0000000", "ddd": "00", "siafi": "0000",
	})
}
