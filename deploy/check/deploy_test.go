// Package check looks at what is in deploy: whether Kubernetes, Compose and systemd take it, and whether a gateway comes
// up from it.
package check

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// gateway is the binary under test, built once.
var gateway string

func TestMain(m *testing.M) {
	var err error
	if gateway, err = filepath.Abs(filepath.Join("..", "..", "bin", "gateway")); err == nil {
		_, err = os.Stat(gateway)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err, "(make build)")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// need is the path of a program. Where it is missing the test is skipped, but not in CI.
func need(t *testing.T, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("none of %v is installed", names)
	}
	t.Skipf("none of %v is installed", names)
	return ""
}

// run runs a command and gives what it prints.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// built is what kubectl apply -k would send.
func built(t *testing.T) resmap.ResMap {
	t.Helper()
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join("..", "kubernetes", "example"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// object is the resource of a kind and name, decoded into v.
func object(t *testing.T, all resmap.ResMap, kind, name string, v any) {
	t.Helper()
	for _, r := range all.Resources() {
		if r.GetKind() != kind || r.GetName() != name {
			continue
		}
		data, err := r.MarshalJSON()
		if err == nil {
			err = json.Unmarshal(data, v)
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("there is no %s %s", kind, name)
}

// Every resource has the form that Kubernetes wants, with no key that it does not know.
func TestKubernetesTakesTheManifests(t *testing.T) {
	validate, err := filepath.Abs(filepath.Join("..", "..", ".cache", "e2e", "kubernetes", "venv", "bin", "kubernetes-validate"))
	if err != nil {
		t.Fatal(err)
	}
	all := built(t)
	text, err := all.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "all.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	out := run(t, validate, "--strict", file)
	if n := strings.Count(out, " passed "); n != all.Size() || n < 10 {
		t.Errorf("%d of %d resources pass:\n%s", n, all.Size(), out)
	}
}

// pod is what matters here of a Deployment's.
type pod struct {
	Spec struct {
		Template struct {
			Spec struct {
				Grace      int `json:"terminationGracePeriodSeconds"`
				Containers []struct {
					Args      []string `json:"args"`
					Startup   probe    `json:"startupProbe"`
					Liveness  probe    `json:"livenessProbe"`
					Readiness probe    `json:"readinessProbe"`
				} `json:"containers"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

type probe struct {
	Get struct{ Path, Port string } `json:"httpGet"`
}

// A gateway comes up from the ConfigMap and the Secret, with the container's arguments, as the pod mounts them, and
// answers its probes.
func TestAGatewayComesUpFromTheManifests(t *testing.T) {
	all := built(t)
	var config struct{ Data map[string]string }
	var secret struct{ Data map[string][]byte }
	var p pod
	object(t, all, "ConfigMap", "gateway", &config)
	object(t, all, "Secret", "gateway", &secret)
	object(t, all, "Deployment", "gateway", &p)
	dir := t.TempDir()
	for name, data := range secret.Data {
		write(t, filepath.Join(dir, "secrets", name), string(data))
	}
	main, admin := free(t), free(t)
	file := filepath.Join(dir, "gateway.yaml")
	write(t, file, replaced(t, config.Data["gateway.yaml"], map[string]string{
		"0.0.0.0:8080": main, "0.0.0.0:9090": admin, "https://api.openai.com/v1": provider(t),
	}))
	c := p.Spec.Template.Spec.Containers[0]
	var args []string
	for _, arg := range c.Args {
		args = append(args, strings.Replace(arg, "/etc/gateway/gateway.yaml", file, 1))
	}
	boot(t, exec.CommandContext(context.WithoutCancel(t.Context()), gateway, args...), main)
	for name, probe := range map[string]probe{"startup": c.Startup, "liveness": c.Liveness, "readiness": c.Readiness} {
		if status, body := get(t, "http://"+admin+probe.Get.Path, ""); status != http.StatusOK || probe.Get.Port != "admin" {
			t.Errorf("%s: GET %s = %d %s", name, probe.Get.Path, status, body)
		}
	}
	if p.Spec.Template.Spec.Grace < 40 {
		t.Errorf("the pod is killed after %d s, before shutdown_grace is over", p.Spec.Template.Spec.Grace)
	}
	chat(t, main, "key-for-trying")
}

// Compose takes the file, and a gateway comes up from what it mounts.
func TestComposeTakesTheFile(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-x")
	options, err := cli.NewProjectOptions([]string{filepath.Join("..", "compose", "compose.yaml")}, cli.WithOsEnv)
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range project.Services {
		for _, v := range s.Volumes {
			if v.Type != "bind" {
				continue
			}
			info, err := os.Stat(v.Source)
			if err != nil {
				t.Errorf("%s mounts %v", s.Name, err)
			} else if s.Name == "gateway" && !info.IsDir() {
				t.Errorf("the gateway mounts the file %s: a new file in its place would not reach it", v.Source)
			}
		}
	}
	if len(project.Services) != 4 {
		t.Errorf("services: %v", project.ServiceNames())
	}
	config, err := os.ReadFile(filepath.Join("..", "compose", "gateway", "gateway.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := os.ReadFile(filepath.Join("..", "compose", "gateway", "keys.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	dir, main, admin := t.TempDir(), free(t), free(t)
	write(t, filepath.Join(dir, "keys.yaml"), string(keys))
	write(t, filepath.Join(dir, "gateway.yaml"), replaced(t, string(config), map[string]string{"0.0.0.0:8080": main, "0.0.0.0:9090": admin}))
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), gateway, "serve", "-c", filepath.Join(dir, "gateway.yaml"))
	cmd.Env = []string{"OPENAI_API_KEY=sk-x", "OPENAI_BASE_URL=" + provider(t)}
	boot(t, cmd, main)
	chat(t, main, "key-for-trying")
	run(t, need(t, "promtool"), "check", "config", "--syntax-only", filepath.Join("..", "compose", "prometheus.yml"))
}

// systemd takes the unit, and a gateway comes up from its command line.
func TestSystemdTakesTheUnit(t *testing.T) {
	unit, err := os.ReadFile(filepath.Join("..", "systemd", "gateway.service"))
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(t.TempDir(), "gateway.service")
	write(t, own, strings.ReplaceAll(string(unit), "/usr/local/bin/gateway", gateway))
	if out := run(t, need(t, "systemd-analyze"), "verify", own); strings.TrimSpace(out) != "" {
		t.Errorf("systemd-analyze verify:\n%s", out)
	}
	dir, main := t.TempDir(), free(t)
	file := filepath.Join(dir, "gateway.yaml")
	write(t, filepath.Join(dir, "credentials", "openai-api-key"), "sk-x\n")
	write(t, file, fmt.Sprintf("server: {listen: %q}\nupstreams: {openai: {base_url: %q, api_key: \"${file:%s}\"}}\n", main, provider(t), filepath.Join(dir, "credentials", "openai-api-key")))
	m := regexp.MustCompile("(?m)^ExecStart=(.*)$").FindStringSubmatch(string(unit))
	if m == nil {
		t.Fatal("the unit has no ExecStart")
	}
	start := func(file string) *exec.Cmd {
		words := strings.Fields(strings.NewReplacer("/usr/local/bin/gateway", gateway, "/etc/gateway/gateway.yaml", file).Replace(m[1]))
		return exec.CommandContext(context.WithoutCancel(t.Context()), words[0], words[1:]...)
	}
	boot(t, start(file), main)
	chat(t, main, "")
	faulty := filepath.Join(dir, "faulty.yaml")
	write(t, faulty, "upstrems: {}\n")
	err = start(faulty).Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || !strings.Contains(string(unit), fmt.Sprintf("RestartPreventExitStatus=%d\n", exit.ExitCode())) {
		t.Errorf("a faulty configuration ends with %v, which the unit does not know: it would be started again and again", err)
	}
}

// Both ways to an image give the same one, for any processor: deploy/Dockerfile builds where it runs for where the image
// will, with the compiler and the flags of make build.
func TestTheDockerfilesAgree(t *testing.T) {
	read := func(path ...string) string {
		text, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, path...)...))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	source, release := read("deploy", "Dockerfile"), read("deploy", "release.Dockerfile")
	final := func(text string) []string { // what the image is, but for where the binary comes from
		var lines []string
		for line := range strings.Lines(text[strings.LastIndex(text, "\nFROM "):]) {
			if !strings.HasPrefix(line, "COPY ") && !strings.HasPrefix(line, "ARG ") && strings.TrimSpace(line) != "" {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		return lines
	}
	if got, want := final(source), final(release); !slices.Equal(got, want) || len(got) < 5 {
		t.Errorf("the image of Dockerfile is\n%q\nthat of release.Dockerfile\n%q", got, want)
	}
	toolchain := regexp.MustCompile(`(?m)^toolchain go(\S+)$`).FindStringSubmatch(read("go.mod"))
	if toolchain == nil || !strings.Contains(source, "FROM --platform=$BUILDPLATFORM golang:"+toolchain[1]+" AS build\n") {
		t.Errorf("Dockerfile does not build with go.mod's toolchain %q on the builder's own processor", toolchain)
	}
	flags := regexp.MustCompile(`go build( .*)? -trimpath -ldflags .-s -w -X main\.version=`)
	for _, line := range []string{"CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build", "ARG TARGETOS\n", "ARG TARGETARCH\n"} {
		if !strings.Contains(source, line) {
			t.Errorf("Dockerfile lacks %q", line)
		}
	}
	makefile := strings.ReplaceAll(read("Makefile"), "$(GO)", "go")
	if !flags.MatchString(source) || len(flags.FindAllString(makefile, -1)) != 2 {
		t.Error("Dockerfile, make build and make cross have other flags each")
	}
	cross := regexp.MustCompile(`(?m)^PLATFORMS = (.*)$`).FindStringSubmatch(makefile)
	platforms := regexp.MustCompile(`--platform (linux/\S+)`).FindAllStringSubmatch(source+read("docs", "deploy.md"), -1)
	if cross == nil || len(platforms) != 2 {
		t.Fatalf("make cross is for %q, and the documents tell of %q", cross, platforms)
	}
	for _, named := range platforms {
		for platform := range strings.SplitSeq(named[1], ",") {
			if !slices.Contains(strings.Fields(cross[1]), platform) {
				t.Errorf("nothing builds %s, which the documents tell of", platform)
			}
		}
	}
}

// The image is built, and a gateway comes up in it: as its user, with nothing else in it.
func TestTheImage(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can look into an image here") // CI is root
	}
	buildah := need(t, "buildah")
	dir := t.TempDir()
	storage := []string{"--root", filepath.Join(dir, "root"), "--runroot", filepath.Join(dir, "run"), "--storage-driver", "vfs"}
	do := func(args ...string) string {
		return strings.TrimSpace(run(t, buildah, append(slices.Clip(storage), args...)...))
	}
	root, err := filepath.Abs(filepath.Join("..", "..")) // with what .dockerignore leaves of it
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(gateway)
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(root, "bin", "gateway-linux-"+runtime.GOARCH)
	if err := os.WriteFile(own, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	do("bud", "--isolation", "chroot", "--build-arg", "TARGETARCH="+runtime.GOARCH, "-f", filepath.Join("..", "release.Dockerfile"), "-t", "toolgate:test", root)
	container := do("from", "toolgate:test")
	inside := do("mount", container)
	defer func() { do("umount", container); do("rm", container) }()
	entries, err := os.ReadDir(inside)
	if err != nil || len(entries) != 1 || entries[0].Name() != "gateway" {
		t.Errorf("the image holds %v, %v", entries, err)
	}
	var inspected struct {
		OCIv1 struct {
			Config struct {
				User            string
				Entrypoint, Cmd []string
			} `json:"config"`
		}
	}
	if err := json.Unmarshal([]byte(do("inspect", container)), &inspected); err != nil {
		t.Fatal(err)
	}
	c := inspected.OCIv1.Config
	if c.User != "65532:65532" {
		t.Errorf("the image runs as %q", c.User)
	}
	main := free(t)
	write(t, filepath.Join(inside, "etc", "gateway", "gateway.yaml"), fmt.Sprintf("server: {listen: %q}\nupstreams: {openai: {base_url: %q, api_key: sk-x}}\n", main, provider(t)))
	for _, path := range []string{"etc", "etc/gateway"} {
		if err := os.Chmod(filepath.Join(inside, path), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(inside, "etc/gateway/gateway.yaml"), 0o644); err != nil {
		t.Fatal(err)
	}
	words := append(c.Entrypoint, c.Cmd...)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), words[0], words[1:]...)
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: inside, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	cmd.Dir = "/"
	boot(t, cmd, main)
	chat(t, main, "")
}

// provider is one that says hello.
func provider(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			http.Error(w, "no key", http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}]}`)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

// boot starts a gateway, waits until it lives, and ends it in order with the test.
func boot(t *testing.T, cmd *exec.Cmd, address string) {
	t.Helper()
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // ends with the process
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("after SIGTERM: %v\n%s", err, log.String())
			}
			for line := range strings.Lines(log.String()) {
				if !json.Valid([]byte(line)) {
					t.Errorf("a line of the log is no JSON: %s", line)
				}
			}
		case <-time.After(60 * time.Second):
			t.Error("the gateway does not end")
			_ = cmd.Process.Kill()
		}
	})
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address); err == nil {
			conn.Close()
			return
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the gateway ended: %v\n%s", err, log.String())
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("nobody listens at %s", address)
		}
	}
}

func get(t *testing.T, url, key string) (int, string) { return do(t, http.MethodGet, url, key, "") }

func chat(t *testing.T, address, key string) {
	t.Helper()
	status, body := do(t, http.MethodPost, "http://"+address+"/v1/chat/completions", key, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`)
	if status != http.StatusOK || !strings.Contains(body, "hello") {
		t.Errorf("a chat completion: %d %s", status, body)
	}
}

func do(t *testing.T, method, url, key, body string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// free is an address of this machine that nobody listens at.
func free(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// replaced is a text with others in place of some, each of which has to be there.
func replaced(t *testing.T, text string, by map[string]string) string {
	t.Helper()
	for old, value := range by {
		if !strings.Contains(text, old) {
			t.Fatalf("%q is not in:\n%s", old, text)
		}
		text = strings.ReplaceAll(text, old, value)
	}
	return text
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
