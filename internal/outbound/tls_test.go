package outbound

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/outbound/outboundtest"
)

// settings reads a tls mapping whose files are in a folder.
func settings(dir, yaml string) (*TLS, *config.File) {
	f := config.Parse("gateway.yaml", dir, []byte("tls: "+yaml), nil)
	var whole struct {
		TLS *TLS `yaml:"tls"`
	}
	f.Decode(&whole)
	return whole.TLS, f
}

const whole = "{ca_file: ca.pem, cert_file: client.pem, key_file: client.key, server_name: server}"

func TestAServerOfAnAuthorityAndACertificateOfOurs(t *testing.T) {
	a := outboundtest.NewAuthority(t)
	a.Issue(t, "client", time.Now().Add(time.Hour))
	s := a.Server(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "hello "+r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	for _, tt := range []struct{ name, yaml, want string }{
		{"the whole", whole, ""},
		{"TLS 1.3", strings.Replace(whole, "{", "{min_version: 1.3, ", 1), ""},
		{"nothing", "null", "certificate"},
		{"no authority", strings.Replace(whole, "ca_file: ca.pem, ", "", 1), "certificate signed by unknown authority"},
		{"the server's certificate in place of an authority", strings.Replace(whole, "ca.pem", "server.pem", 1), ""},
		{"another name", strings.Replace(whole, "server_name: server", "server_name: other", 1), "not other"},
		{"no certificate of ours", "{ca_file: ca.pem, server_name: server}", "certificate required"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, f := settings(a.Dir, tt.yaml)
			if p := f.Problems(); p != nil {
				t.Fatal(p)
			}
			pools := NewPools(Dialer{})
			defer pools.CloseIdleConnections()
			by, err := For(pools, c)
			if err != nil {
				t.Fatal(err)
			}
			got, err := fetch(t.Context(), by, s.URL, 100)
			switch {
			case tt.want == "" && (err != nil || string(got) != "hello client"):
				t.Errorf("got %q, %v", got, err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestOldTLSIsNotSpoken(t *testing.T) {
	a := outboundtest.NewAuthority(t)
	a.Issue(t, "client", time.Now().Add(time.Hour))
	s := a.Server(t, http.NotFoundHandler())
	s.TLS.MaxVersion = 0x0302 // TLS 1.1
	s.TLS.MinVersion = 0x0302
	c, _ := settings(a.Dir, whole)
	tr := NewTransport(Dialer{}, c)
	defer tr.CloseIdleConnections()
	if _, err := fetch(t.Context(), tr, s.URL, 100); err == nil || !strings.Contains(err.Error(), "version") {
		t.Errorf("%v, want a refusal of the version", err)
	}
	if v := NewTransport(Dialer{}, nil).TLSClientConfig.MinVersion; v != 0x0303 {
		t.Errorf("without settings the oldest version is %x", v)
	}
}

func TestFilesOfCertificatesThatCannotWork(t *testing.T) {
	a := outboundtest.NewAuthority(t)
	a.Issue(t, "client", time.Now().Add(time.Hour))
	a.Issue(t, "other", time.Now().Add(time.Hour))
	for name, text := range map[string]string{
		"text.pem":   "no certificate at all",
		"broken.pem": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
		"huge.pem":   strings.Repeat("x", maxPEM+1),
	} {
		if err := os.WriteFile(filepath.Join(a.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ yaml, want string }{
		{"{ca_file: gone.pem}", "gateway.yaml:1:16: tls.ca_file: gone.pem can't be read: no such file or directory"},
		{"{ca_file: ''}", "tls.ca_file: is empty"},
		{"{ca_file: text.pem}", "tls.ca_file: text.pem has no certificate in PEM form"},
		{"{ca_file: client.key}", "tls.ca_file: client.key has no certificate"},
		{"{ca_file: broken.pem}", "tls.ca_file: certificate 1 of broken.pem can't be read"},
		{"{ca_file: huge.pem}", "tls.ca_file: huge.pem can't be read: it is too large: more than 1MiB"},
		{"{cert_file: client.pem}", "tls.cert_file: a certificate needs its key"},
		{"{key_file: client.key}", "tls.key_file: a key needs its certificate"},
		{"{cert_file: client.pem, key_file: gone.key}", "tls.key_file: gone.key can't be read"},
		{"{cert_file: client.key, key_file: client.key}", "tls.cert_file: client.key has no certificate"},
		{"{cert_file: client.pem, key_file: client.pem}", "tls.key_file: client.pem has no key"},
		{"{cert_file: client.pem, key_file: other.key}", "tls.key_file: client.pem and other.key are no certificate and its key: private key does not match public key"},
		{"{min_version: 1.1}", "tls.min_version: want one of 1.2, 1.3"},
		{"{insecure: true}", `tls.insecure: unknown key "insecure"`},
	} {
		_, f := settings(a.Dir, tt.yaml)
		if p := f.Problems(); len(p) != 1 || !strings.Contains(p[0].String(), tt.want) {
			t.Errorf("%s: problems %v, want one with %q", tt.yaml, p, tt.want)
		}
	}
}

func TestExpiredCertificatesAreWarnedOf(t *testing.T) {
	a := outboundtest.NewAuthority(t)
	a.Issue(t, "client", time.Now().Add(-time.Hour))
	_, f := settings(a.Dir, whole)
	if p := f.Problems(); p != nil {
		t.Fatal(p)
	}
	if w := f.Warnings(); len(w) != 1 || !strings.Contains(w[0].String(), "tls.cert_file: the certificate of CN=client has expired at ") {
		t.Errorf("warnings %v, want one of the expired certificate", w)
	}
}

func TestFilesOfCertificatesAreAPartOfTheConfiguration(t *testing.T) {
	a := outboundtest.NewAuthority(t)
	a.Issue(t, "client", time.Now().Add(time.Hour))
	before, f := settings(a.Dir, whole)
	for _, name := range []string{"ca.pem", "client.pem", "client.key"} {
		if _, ok := f.Uses()[filepath.Join(a.Dir, name)]; !ok {
			t.Errorf("%s is not among the files %v", name, f.Uses())
		}
	}
	if again, _ := settings(a.Dir, whole); again.Key() != before.Key() {
		t.Error("equal settings have different keys")
	}
	a.Issue(t, "client", time.Now().Add(time.Hour))
	if renewed, _ := settings(a.Dir, whole); renewed.Key() == before.Key() {
		t.Error("a renewed certificate has the old key")
	}
}

func TestEqualSettingsShareAPool(t *testing.T) {
	a := outboundtest.NewAuthority(t)
	a.Issue(t, "client", time.Now().Add(time.Hour))
	one, _ := settings(a.Dir, whole)
	two, _ := settings(a.Dir, whole)
	other, _ := settings(a.Dir, "{ca_file: ca.pem}")
	pools := NewPools(Dialer{})
	first := pools.For(one)
	if pools.For(two) != first {
		t.Error("equal settings have two pools")
	}
	if pools.For(other) == first || pools.For(nil) == first || pools.For(nil) != pools.Transport {
		t.Error("different settings share a pool")
	}
	if _, err := For(http.NewFileTransport(http.Dir(".")), one); err == nil {
		t.Error("a transport without settings is taken in their place")
	}
	runtime.KeepAlive(first)
}

// Certificates are renewed for as long as the process lives: what they made goes with the last tool that has it.
func TestPoolsThatNobodyHasAreForgotten(t *testing.T) {
	a := outboundtest.NewAuthority(t)
	pools := NewPools(Dialer{})
	for _, name := range []string{"a", "b", "c"} {
		c, _ := settings(a.Dir, "{server_name: "+name+"}")
		pools.For(c)
	}
	runtime.GC()
	c, _ := settings(a.Dir, "{server_name: d}")
	kept := pools.For(c)
	if n := len(pools.others); n != 1 {
		t.Errorf("%d pools are known, want 1", n)
	}
	runtime.KeepAlive(kept)
}

func TestSettingsForAnAddressWithoutTLSAreRefused(t *testing.T) {
	f := config.Parse("gateway.yaml", ".", []byte("tls: {}"), nil)
	(&TLS{}).CheckAddress(f.Root(), "http://model.test")
	(*TLS)(nil).CheckAddress(f.Root(), "http://model.test")
	(&TLS{}).CheckAddress(f.Root(), "https://model.test")
	if p := f.Problems(); len(p) != 1 || !strings.Contains(p[0].String(), "tls: the address begins with http://") {
		t.Errorf("problems %v", p)
	}
}
