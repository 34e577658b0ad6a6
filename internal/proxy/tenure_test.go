package proxy

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// other is a copy of the site in force, which has not been used.
func (f *fixture) other(change func(*Site)) *Site {
	site := *f.tenure.Load().site
	change(&site)
	return &site
}

// A request that began before the site was replaced is served by the old one to its end, and the old one is over then.
func TestRequestKeepsTheSiteThatItBeganWith(t *testing.T) {
	asked, goOn := make(chan struct{}), make(chan struct{})
	f := newFixture(t, fixtureConfig{}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked <- struct{}{}
		<-goOn
		_, _ = io.WriteString(w, answer)
	}, nil)
	done := make(chan int)
	go func() { // ends with the request
		resp, err := http.Post(f.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"Hi"}]}`))
		if err != nil {
			t.Error(err)
			close(done)
			return
		}
		_ = resp.Body.Close()
		done <- resp.StatusCode
	}()
	<-asked

	over := f.Use(f.other(func(s *Site) { s.MaxBody = 1 }))

	if resp, err := http.Post(f.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m"}`)); err != nil {
		t.Error(err)
	} else {
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("a request after Use = %d, want 413 by the new max_body", resp.StatusCode)
		}
	}
	select {
	case <-over:
		t.Error("the replaced site is over while a request is served by it")
	default:
	}
	close(goOn)
	if status := <-done; status != http.StatusOK {
		t.Errorf("the request that began before Use = %d, want 200", status)
	}
	<-over
}

func TestSiteWithoutRequestsIsOverAtOnce(t *testing.T) {
	f := newFixture(t, fixtureConfig{}, nil, nil)
	<-f.Use(f.other(func(*Site) {}))
}

// Holding and replacing at once: a site that is held is never over, and each one ends.
func TestSiteIsNotOverWhileItIsHeld(t *testing.T) {
	f := newFixture(t, fixtureConfig{}, nil, nil)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				held := f.take()
				select {
				case <-held.over:
					t.Error("a site that is held is over")
				default:
				}
				held.release()
			}
		})
	}
	for range 1000 {
		<-f.Use(f.other(func(*Site) {}))
	}
	close(stop)
	wg.Wait()
}

// The origins of browsers were those of the start.
func TestOriginsAreThoseOfTheSiteInForce(t *testing.T) {
	f := newFixture(t, fixtureConfig{}, nil, nil)
	allowed := func() string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, f.URL+"/v1/models", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Origin", "https://app.example.com")
		req.Header.Set("Access-Control-Request-Method", http.MethodGet)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.Header.Get("Access-Control-Allow-Origin")
	}
	if got := allowed(); got != "" {
		t.Errorf("without origins: allowed %q", got)
	}
	f.Use(f.other(func(s *Site) { s.CORSOrigins = []string{"https://app.example.com"} }))
	if got := allowed(); got != "https://app.example.com" {
		t.Errorf("with the origin: allowed %q", got)
	}
}
