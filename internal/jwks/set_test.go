package jwks

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// published is a provider's set that changes, fails and counts.
type published struct {
	mu    sync.Mutex
	data  []byte
	err   error
	takes time.Duration
	reads int
}

func (p *published) read(ctx context.Context) ([]byte, error) {
	p.mu.Lock()
	p.reads++
	data, err, takes := p.data, p.err, p.takes
	p.mu.Unlock()
	select {
	case <-time.After(takes):
		return data, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *published) put(data []byte, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.data, p.err = data, err
}

func (p *published) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reads
}

// lines is a log. It may be read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

const refresh = 5 * time.Minute

// started is a Set of what is published, on a virtual clock.
func started(t *testing.T, p *published) (*Set, *lines) {
	t.Helper()
	log := &lines{}
	s := New(p.read, Options{Refresh: refresh, Logger: slog.New(slog.NewTextHandler(log, nil))})
	stop := s.Start(t.Context())
	t.Cleanup(stop)
	synctest.Wait()
	return s, log
}

// has says which of the ids are among the keys in force.
func has(t *testing.T, s *Set, ids ...string) string {
	t.Helper()
	k, err := s.Keys()
	if err != nil {
		return err.Error()
	}
	var found []string
	for _, id := range ids {
		if len(k.Find(id, "EdDSA")) > 0 {
			found = append(found, id)
		}
	}
	return strings.Join(found, " ")
}

func TestKeysRotate(t *testing.T) {
	a, b := jwk(t, "a", newEd(t), nil), jwk(t, "b", newEd(t), nil)
	synctest.Test(t, func(t *testing.T) {
		p := &published{data: set(t, a)}
		s, _ := started(t, p)
		first, err := s.Keys()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(refresh + time.Second)
		if again, _ := s.Keys(); again != first || p.count() != 2 {
			t.Errorf("the same set read again (%d readings) is another", p.count())
		}
		p.put(set(t, a, b), nil)
		if got := has(t, s, "a", "b"); got != "a" {
			t.Errorf("before a reading: %s", got)
		}
		if _, err := s.Renew(t.Context()); err != nil || has(t, s, "a", "b") != "a b" {
			t.Errorf("asked for, the new key is not there: %v", err)
		}
		p.put(set(t, b), nil)
		time.Sleep(refresh + time.Second)
		if got := has(t, s, "a", "b"); got != "b" {
			t.Errorf("after a key was taken away and a refresh: %s", got)
		}
	})
}

// Tokens with keys that nobody has heard of made the gateway read the set for each of them.
func TestAFloodOfUnknownKeysMakesFewReadings(t *testing.T) {
	data := set(t, jwk(t, "a", newEd(t), nil))
	synctest.Test(t, func(t *testing.T) {
		p := &published{data: data, takes: 100 * time.Millisecond}
		s, _ := started(t, p)
		time.Sleep(time.Second)
		begin := time.Now()
		for time.Since(begin) < time.Minute {
			var wg sync.WaitGroup
			for range 300 { // more than may wait
				wg.Go(func() { _, _ = s.Renew(t.Context()) })
			}
			wg.Wait()
			time.Sleep(100 * time.Millisecond)
		}
		if got := p.count(); got < 5 || got > 1+askBurst+6 {
			t.Errorf("%d readings in a minute", got)
		}
	})
}

func TestWhoWaitsForAReadingWaitsNotForLong(t *testing.T) {
	data := set(t, jwk(t, "a", newEd(t), nil))
	synctest.Test(t, func(t *testing.T) {
		p := &published{data: data}
		s, _ := started(t, p)
		p.mu.Lock()
		p.takes = time.Hour
		p.mu.Unlock()
		begin := time.Now()
		if k, err := s.Renew(t.Context()); err != nil || k.Len() != 1 || time.Since(begin) != patience {
			t.Errorf("Renew() = %v after %s", err, time.Since(begin))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin = time.Now()
		if _, err := s.Renew(ctx); err != nil || time.Since(begin) != time.Second {
			t.Errorf("of a client that leaves: %v after %s", err, time.Since(begin))
		}
	})
}

func TestWithoutTheProviderKeysStayGoodForAWhile(t *testing.T) {
	data := set(t, jwk(t, "a", newEd(t), nil))
	synctest.Test(t, func(t *testing.T) {
		p := &published{data: data}
		s, log := started(t, p)
		p.put(nil, errors.New("down"))
		time.Sleep(leastStale - time.Second)
		if got := has(t, s, "a"); got != "a" {
			t.Errorf("after %s: %s", leastStale, got)
		}
		if got := strings.Count(log.String(), "can't be read"); got != 1 {
			t.Errorf("%d lines say that it is down: %s", got, log)
		}
		time.Sleep(time.Minute)
		if _, err := s.Keys(); !errors.Is(err, ErrUnavailable) {
			t.Errorf("later: %v, want ErrUnavailable", err)
		}
		if got := strings.Count(log.String(), "too old"); got != 1 {
			t.Errorf("%d lines say that the keys are too old: %s", got, log)
		}
		p.put(data, nil)
		time.Sleep(lastRetry + time.Second)
		if got := has(t, s, "a"); got != "a" || !strings.Contains(log.String(), "can be read again") {
			t.Errorf("once it is up: %s, %s", got, log)
		}
	})
}

func TestAProviderThatComesUpLate(t *testing.T) {
	data := set(t, jwk(t, "a", newEd(t), nil))
	synctest.Test(t, func(t *testing.T) {
		p := &published{err: errors.New("down")}
		s, log := started(t, p)
		if _, err := s.Renew(t.Context()); !errors.Is(err, ErrUnavailable) {
			t.Errorf("Renew() = %v, want ErrUnavailable", err)
		}
		if !strings.Contains(log.String(), "tokens are refused until they can") {
			t.Errorf("the log does not say it: %s", log)
		}
		for _, broken := range []string{"<html>", "{}"} { // what is no set counts as being down
			p.put([]byte(broken), nil)
			time.Sleep(time.Minute)
			if _, err := s.Keys(); !errors.Is(err, ErrUnavailable) {
				t.Errorf("with %s: %v", broken, err)
			}
		}
		p.put(data, nil)
		time.Sleep(lastRetry + time.Second)
		if got := has(t, s, "a"); got != "a" {
			t.Errorf("once it is up: %s", got)
		}
	})
}

func TestWhoAsksBeforeTheFirstReadingWaitsForIt(t *testing.T) {
	data := set(t, jwk(t, "a", newEd(t), nil))
	synctest.Test(t, func(t *testing.T) {
		p := &published{data: data, takes: time.Second}
		s := New(p.read, Options{Refresh: refresh})
		stop := s.Start(t.Context())
		defer stop()
		if k, err := s.Renew(t.Context()); err != nil || k.Len() != 1 || p.count() != 1 {
			t.Errorf("Renew() = %v after %d readings", err, p.count())
		}
	})
}

func TestTheSetIsReadWhileItHasUsers(t *testing.T) {
	data := set(t, jwk(t, "a", newEd(t), nil))
	synctest.Test(t, func(t *testing.T) {
		p := &published{data: data}
		s := New(p.read, Options{Refresh: refresh})
		first, second := s.Start(t.Context()), s.Start(t.Context())
		time.Sleep(refresh + time.Second)
		first()
		first() // once more does nothing
		time.Sleep(refresh)
		if got := p.count(); got != 3 {
			t.Errorf("%d readings, want 3", got)
		}
		second()
		time.Sleep(10 * refresh)
		if got := p.count(); got != 3 {
			t.Errorf("%d readings after the last user, want 3", got)
		}
		if got := has(t, s, "a"); got != "a" { // for requests that end
			t.Errorf("after the last user: %s", got)
		}
		third := s.Start(t.Context())
		synctest.Wait()
		third()
		if got := p.count(); got != 4 {
			t.Errorf("%d readings, want 4", got)
		}
	})
}

func TestFixedKeysStay(t *testing.T) {
	k, _, err := Parse(set(t, jwk(t, "a", newEd(t), nil)))
	if err != nil {
		t.Fatal(err)
	}
	s := Fixed(k)
	defer s.Start(t.Context())()
	if got, err := s.Renew(t.Context()); got != k || err != nil {
		t.Errorf("Renew() = %v, %v", got, err)
	}
}

func TestAddresses(t *testing.T) {
	for address, good := range map[string]bool{
		"https://login.example.com/jwks": true, "http://localhost:8080/jwks": true, "http://127.0.0.1/jwks": true, "http://[::1]:80/jwks": true,
		"http://login.example.com/jwks": false, "http://127.0.0.1.example.com/": false, "": false, "login.example.com": false, "file:///jwks": false,
		"https://user:secret@login.example.com/": false, "https:///jwks": false, "https://:443/": false, "ftp://localhost/": false, "https://a/#b": false,
	} {
		if fault := CheckURL(address); (fault == "") != good || strings.Contains(fault, "secret@") {
			t.Errorf("%s: %q", address, fault)
		}
	}
}

func TestReadingOverHTTP(t *testing.T) {
	data := set(t, jwk(t, "a", newEd(t), nil))
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		elsewhere.Add(1)
		_, _ = w.Write(data)
	}))
	defer other.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("/jwks", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) })
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/jwks", http.StatusFound) })
	mux.HandleFunc("/round", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/round", http.StatusFound) })
	mux.HandleFunc("/elsewhere", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) })
	mux.HandleFunc("/broken", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
		for range 64 {
			_, _ = io.WriteString(w, strings.Repeat(" ", maxBytes/8))
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	for path, want := range map[string]string{
		"/jwks": "", "/moved": "", "/round": "redirects", "/elsewhere": "another host", "/broken": "HTTP 502", "/large": "larger than", "/none": "HTTP 404",
	} {
		s := New(HTTP(server.URL+path), Options{Refresh: refresh})
		k, _, err := s.Read(t.Context())
		if want == "" && (err != nil || k.Len() != 1) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("another host was asked %d times", n)
	}
}
