package outboundtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates. Its files are in Dir: ca.pem is its own.
type Authority struct {
	Dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	next int64
}

// NewAuthority makes one with an empty folder for its files.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{Dir: t.TempDir(), next: 1}
	a.key = newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of the tests"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	writePEM(t, filepath.Join(a.Dir, "ca.pem"), "CERTIFICATE", der)
	return a
}

// Issue writes NAME.pem and NAME.key, a certificate for that name as host and as client which is valid until an instant,
// and gives both.
func (a *Authority) Issue(t testing.TB, name string, until time.Time) tls.Certificate {
	t.Helper()
	a.next++
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.next), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: until.Add(-2 * time.Hour), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, filepath.Join(a.Dir, name+".pem"), "CERTIFICATE", der)
	writePEM(t, filepath.Join(a.Dir, name+".key"), "PRIVATE KEY", plain)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// Server is an HTTPS server with a certificate for "server" that serves nobody without a certificate of the same
// authority. Its name is none that resolves: who calls it by its address needs server_name.
func (a *Authority) Server(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	s := httptest.NewUnstartedServer(h)
	s.TLS = &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{a.Issue(t, "server", time.Now().Add(time.Hour))},
		ClientCAs:    pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writePEM(t testing.TB, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
