package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/proxy"
)

// client asks a gateway that is at work.
type client struct {
	base string
	key  string // from the environment alone: what stands in a command line is seen by everybody on the machine
	http *http.Client
}

const (
	urlVariable = "GATEWAY_URL"
	keyVariable = "GATEWAY_API_KEY"
	// maxReply bounds what is read of a reply. A page of runs has far less; a run with its content may have some MiB.
	maxReply = 64 << 20
)

// newClient is a client of the gateway at given, else at $GATEWAY_URL, else at the address that the configuration has.
func newClient(given, path string) (*client, error) {
	base, err := gatewayURL(given, path)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, usageError{fmt.Errorf("%q is no address of a gateway: want one such as http://127.0.0.1:8080", base)}
	}
	return &client{base: strings.TrimRight(base, "/"), key: os.Getenv(keyVariable), http: &http.Client{Timeout: 30 * time.Second}}, nil
}

func gatewayURL(given, path string) (string, error) {
	if given == "" && path == "" { // -c means the gateway of that file
		given = os.Getenv(urlVariable)
	}
	if given != "" {
		return given, nil
	}
	var file struct {
		Server proxy.Config `yaml:"server"`
	}
	file.Server.SetDefaults()
	if from, err := sourceOf(path); err == nil && from != "" {
		if _, err := os.Stat(string(from)); err != nil {
			return "", usageError{err}
		}
		// The rest of the file is of no concern here, nor are secrets that this environment may lack.
		from.read().Root().Get("server").Decode(&file.Server)
	}
	if file.Server.AdminListen != "" {
		return reachable(file.Server.AdminListen), nil
	}
	return reachable(file.Server.Listen), nil
}

// reachable is where a gateway that listens there is found from the same machine.
func reachable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen // which newClient refuses
	}
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// get asks for a JSON document and decodes it into v.
func (c *client) get(ctx context.Context, path string, query url.Values, v any) error {
	at := c.base + path
	if len(query) > 0 {
		at += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return usageError{err}
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return c.unreached(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return c.unreached(err)
	}
	if resp.StatusCode != http.StatusOK {
		return c.refused(resp.StatusCode, body)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("what is at %s is no gateway: it answers with something other than JSON", c.base)
	}
	return nil
}

func (c *client) unreached(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // without the address, which is told anyway
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		err = e.Err
	}
	return fmt.Errorf("no gateway answers at %s: %w\nStart one with gateway serve, or say where it is with --url or $%s", c.base, err, urlVariable)
}

// replyError is an error that a gateway has sent.
type replyError struct {
	Message string `json:"message"`
	Code    string `json:"code"`
	Param   string `json:"param"`
}

func (e *replyError) Error() string { return plain(e.Message) }

// refused is an error reply, in words for who sits at the command line.
func (c *client) refused(status int, body []byte) error {
	var reply struct {
		Error replyError `json:"error"`
	}
	if json.Unmarshal(body, &reply) != nil || reply.Error.Message == "" {
		return fmt.Errorf("what is at %s is no gateway: it answers %d %s", c.base, status, http.StatusText(status))
	}
	e := &reply.Error
	switch {
	case status == http.StatusUnauthorized && c.key == "":
		return usageError{fmt.Errorf("the gateway at %s asks for a key: put it into $%s", c.base, keyVariable)}
	case status == http.StatusUnauthorized:
		return usageError{fmt.Errorf("the gateway at %s does not take the key in $%s: %w", c.base, keyVariable, e)}
	case e.Code == "unknown_url":
		return usageError{fmt.Errorf("the gateway at %s has no such endpoint; where server.admin_listen is set, name that address with --url or $%s", c.base, urlVariable)}
	case status == http.StatusBadRequest && e.Param != "":
		return usageError{fmt.Errorf("--%s: %w", plain(e.Param), e)}
	}
	return fmt.Errorf("the gateway at %s: %w", c.base, e)
}
