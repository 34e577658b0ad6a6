package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// keyLines is a keys file with those keys, each by its own name.
func keyLines(names ...string) string {
	if len(names) == 0 {
		return "[]\n"
	}
	var b strings.Builder
	for _, name := range names {
		sum := sha256.Sum256([]byte("key-" + name))
		fmt.Fprintf(&b, "- {name: %s, sha256: %s}\n", name, hex.EncodeToString(sum[:]))
	}
	return b.String()
}

// with asks for the models with a token, and gives the status and the code of an error.
func (s *reloading) with(token string) string {
	s.t.Helper()
	resp := s.authorized(http.MethodGet, "/v1/models", "", token)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(fmt.Sprint(resp.StatusCode, " ", gjson.GetBytes(body, "error.code").Str))
}

// authorized sends a request with a token.
func (s *reloading) authorized(method, path, body, token string) *http.Response {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp
}

const unknownKey = "401 invalid_api_key"

func TestChangeOfTheKeysFileIsSeen(t *testing.T) {
	dir := t.TempDir()
	file, keys := filepath.Join(dir, "gateway.yaml"), filepath.Join(dir, "keys.yaml")
	write(t, keys, keyLines("web"))
	write(t, file, oneModel("a")+"auth: {keys_file: keys.yaml}\n")
	s := serveFile(t, file, onlyEvents)
	if got := s.with("key-web"); got != "200" {
		t.Fatalf("the key of the file: %s", got)
	}
	rename(t, keys, keyLines("web", "app"))
	await(t, "a key that was added is let in", func() bool { return s.with("key-app") == "200" })
	rename(t, keys, keyLines("app"))
	await(t, "a key that was taken away is not", func() bool { return s.with("key-web") == unknownKey })

	rename(t, keys, keyLines("app", "web", "app"))
	await(t, "gateway_config_reload_success 0", func() bool { return s.success() == 0 })
	if got := s.with("key-app") + ", " + s.with("key-web"); got != "200, "+unknownKey {
		t.Errorf("with a file that is invalid: %s, want the keys of the valid one", got)
	}
	if !strings.Contains(s.log.String(), `keys.yaml:3:4: 2.name: another key has the name \"app\"`) {
		t.Errorf("the log does not say what is wrong: %s", s.log)
	}

	rename(t, keys, keyLines())
	await(t, "nobody is let in", func() bool { return s.with("key-app") == unknownKey && s.with("") == unknownKey })
	if err := os.Remove(keys); err != nil {
		t.Fatal(err)
	}
	await(t, "gateway_config_reload_success 0", func() bool { return s.success() == 0 })
	rename(t, keys, keyLines("web"))
	await(t, "a file that came back is read", func() bool { return s.with("key-web") == "200" })
}

// A Secret of Kubernetes: keys.yaml leads through ..data, a link that is replaced as a whole.
func TestSwapOfASecretWithKeysIsSeen(t *testing.T) {
	conf, secret := t.TempDir(), t.TempDir()
	publish := func(version, text string) {
		t.Helper()
		folder := filepath.Join(secret, "..version_"+version)
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder, "keys.yaml"), text)
		if err := os.Symlink("..version_"+version, filepath.Join(secret, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(secret, "..data_tmp"), filepath.Join(secret, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	publish("1", keyLines("one"))
	if err := os.Symlink(filepath.Join("..data", "keys.yaml"), filepath.Join(secret, "keys.yaml")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(conf, "gateway.yaml")
	write(t, file, oneModel("a")+"auth: {keys_file: "+filepath.Join(secret, "keys.yaml")+"}\n")
	s := serveFile(t, file, onlyEvents)
	for i, name := range []string{"two", "three"} {
		publish(fmt.Sprint(i+2), keyLines(name))
		await(t, "the key "+name+" is let in", func() bool { return s.with("key-"+name) == "200" })
	}
	if got := s.with("key-one"); got != unknownKey {
		t.Errorf("a key of the first version: %s", got)
	}
}

func TestRequestOfAKeyThatIsTakenAwayEnds(t *testing.T) {
	asked, goOn := make(chan struct{}), make(chan struct{})
	up := provider(t, func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-goOn
	})
	dir := t.TempDir()
	file, keys := filepath.Join(dir, "gateway.yaml"), filepath.Join(dir, "keys.yaml")
	write(t, keys, keyLines("web"))
	write(t, file, "upstreams: {up: {base_url: "+up+"/v1}}\nauth: {keys_file: keys.yaml}\n")
	s := serveFile(t, file, quick)
	ended := make(chan string, 1)
	go func() { // ends with the request
		resp := s.authorized(http.MethodPost, "/v1/chat/completions", question, "key-web")
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		ended <- fmt.Sprint(resp.StatusCode, " ", string(body), err)
	}()
	<-asked
	rename(t, keys, keyLines("app"))
	await(t, "the key is no longer let in", func() bool {
		resp := s.authorized(http.MethodGet, "/gateway/tools", "", "key-web")
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusUnauthorized
	})
	close(goOn)
	if got := <-ended; !strings.HasPrefix(got, "200 ") || !strings.Contains(got, "Hello.") {
		t.Errorf("the request that ran: %s", got)
	}
}
