// Command service stands in for somebody else's HTTP service in the examples: it answers requests as a file says, and tells
// of each on stderr.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/goccy/go-yaml"
)

// service is a file of replies.
type service struct {
	Wants   map[string]string `yaml:"wants"`   // headers that every request has to have, else it is 401
	Replies map[string]reply  `yaml:"replies"` // by method and path, such as GET /cep/01001000, with a query or without; else 404

	mu   sync.Mutex
	told io.Writer
}

type reply struct {
	Status int `yaml:"status"` // default 200
	Body   any `yaml:"body"`   // sent as JSON
}

func main() {
	addr := flag.String("listen", "127.0.0.1:9100", "address to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *addr, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves a file until ctx ends.
func run(ctx context.Context, addr string, files []string) error {
	if len(files) != 1 {
		return errors.New("want one file of replies")
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		return err
	}
	s := &service{told: os.Stderr}
	if err := yaml.UnmarshalWithOptions(text, s, yaml.Strict()); err != nil {
		return fmt.Errorf("%s: %w", files[0], err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "service at http://%s\n", l.Addr())
	server := &http.Server{Handler: s, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// maxBody bounds the body of a request.
const maxBody = 1 << 20

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer := s.answer(r)
	s.tell(r, body, answer.Status)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer.Status)
	_ = json.NewEncoder(w).Encode(answer.Body) // whoever asked has gone
}

func (s *service) answer(r *http.Request) reply {
	for name, value := range s.Wants {
		if r.Header.Get(name) != value {
			return reply{http.StatusUnauthorized, map[string]string{"error": name + " is not the one that is wanted"}}
		}
	}
	found, ok := s.Replies[r.Method+" "+r.URL.RequestURI()]
	if !ok {
		found, ok = s.Replies[r.Method+" "+r.URL.Path]
	}
	if !ok {
		return reply{http.StatusNotFound, map[string]string{"error": "not found"}}
	}
	if found.Status == 0 {
		found.Status = http.StatusOK
	}
	return found
}

// tell writes one line on a request: what was asked for, its body and the status that it got.
func (s *service) tell(r *http.Request, body []byte, status int) {
	var line bytes.Buffer
	fmt.Fprintf(&line, "request %s %s", r.Method, r.URL.RequestURI())
	if len(body) > 0 {
		line.WriteByte(' ')
		if json.Compact(&line, body) != nil {
			fmt.Fprintf(&line, "%d bytes that are no JSON", len(body))
		}
	}
	fmt.Fprintf(&line, " -> %d\n", status)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.told.Write(line.Bytes())
}
