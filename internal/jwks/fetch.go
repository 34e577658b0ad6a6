package jwks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/toolgate/toolgate/internal/outbound"
)

// fetchTime bounds one reading of a set.
const fetchTime = 10 * time.Second

// Source reads a set from where it is.
type Source func(ctx context.Context) ([]byte, error)

// CheckURL says what is wrong with the address of a set, "" for nothing. What is read over plain HTTP anybody on the way
// can replace, and then sign as anybody: only this machine is asked so.
func CheckURL(address string) string {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "":
		return "want the address of the provider's key set, such as https://login.example.com/.well-known/jwks.json"
	case u.User != nil || u.Fragment != "":
		return "want an address without user and fragment"
	case u.Scheme == "https", u.Scheme == "http" && loopback(u.Hostname()):
		return ""
	}
	return "want https: whoever can replace the keys on their way can sign as anybody (http is for this machine alone)"
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// HTTP reads the set at an address that CheckURL finds good. It uses no proxy of the environment, follows redirects on
// the same scheme, host and port alone, and keeps no connection.
func HTTP(address string) Source {
	transport := outbound.NewTransport(outbound.Dialer{Timeout: 5 * time.Second}, nil)
	transport.DisableKeepAlives = true
	client := &http.Client{
		Timeout:   fetchTime,
		Transport: transport,
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if from := via[0].URL; r.URL.Scheme != from.Scheme || r.URL.Host != from.Host {
				return errors.New("the redirect leads to another host")
			}
			if len(via) > 3 {
				return errors.New("more than 3 redirects")
			}
			return nil
		},
	}
	return func(ctx context.Context) ([]byte, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
		if err != nil {
			return nil, err
		}
		r.Header.Set("Accept", "application/jwk-set+json, application/json")
		resp, err := client.Do(r)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("GET %s: HTTP %d", address, resp.StatusCode)
		}
		data, err := io.ReadAll(io.LimitReader(resp.Body, maxBytes+1)) // Parse refuses what is longer
		if err != nil {
			return nil, fmt.Errorf("GET %s: %w", address, err)
		}
		return data, nil
	}
}
