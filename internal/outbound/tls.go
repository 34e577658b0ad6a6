package outbound

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/config"
)

// TLS is the mapping under `tls`: how one server is spoken to. A nil TLS is TLS 1.2 or newer with the authorities of the
// system. There is no switch that accepts any certificate: one that no authority has signed is its own ca_file.
type TLS struct {
	CAFile     string `yaml:"ca_file" doc:"PEM file of the authorities, or certificates, that the server's has to come from; in place of those of the system. Relative to this file, as are the others."`
	CertFile   string `yaml:"cert_file" doc:"PEM file of the gateway's own certificate, with those between it and the authority."`
	KeyFile    string `yaml:"key_file" doc:"PEM file of its key, which is not encrypted."`
	ServerName string `yaml:"server_name" doc:"Name that the server's certificate is for, where it is not the host of the address."`
	MinVersion string `yaml:"min_version" enum:"1.2,1.3" doc:"Oldest version of TLS that is spoken; 1.2 by default."`

	config *tls.Config // made by Check
	key    string      // equal for equal settings
}

// maxPEM is the size up to which a file is read.
const maxPEM = 1 << 20

// Check reads the files, and reports what can't work.
func (t *TLS) Check(n *config.Node) {
	t.config = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.MinVersion == "1.3" {
		t.config.MinVersion = tls.VersionTLS13
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s %d", t.ServerName, t.config.MinVersion)
	read := func(key, path string) []byte {
		data := readPEM(n, key, path)
		fmt.Fprintf(sum, "\n%s %d ", key, len(data))
		_, _ = sum.Write(data)
		return data
	}
	if n.Get("ca_file").Kind() != config.Null {
		t.authorities(n.Get("ca_file"), read("ca_file", t.CAFile))
	}
	switch own, key := n.Get("cert_file").Kind() != config.Null, n.Get("key_file").Kind() != config.Null; {
	case own && key:
		t.own(n, read("cert_file", t.CertFile), read("key_file", t.KeyFile))
	case own:
		n.FailKey("cert_file", "a certificate needs its key: add key_file")
	case key:
		n.FailKey("key_file", "a key needs its certificate: add cert_file")
	}
	t.key = hex.EncodeToString(sum.Sum(nil))
}

// CheckAddress reports TLS settings at n for an address that is none of TLS.
func (t *TLS) CheckAddress(n *config.Node, address string) {
	if t != nil && strings.HasPrefix(strings.ToLower(address), "http://") {
		n.FailKey("tls", "the address begins with http://, where there is no TLS: want https://")
	}
}

// readPEM is the file under a key, nil after a problem. It is a part of the configuration from then on.
func readPEM(n *config.Node, key, path string) []byte {
	at := n.Get(key)
	if path == "" {
		at.Fail("is empty: want the path of a PEM file")
		return nil
	}
	full := path
	if !filepath.IsAbs(full) {
		full = filepath.Join(n.Dir(), full)
	}
	data, err := config.ReadFile(full, maxPEM)
	n.Uses(full, data)
	if err != nil {
		at.Fail("%s can't be read: %v", path, err)
	}
	return data
}

func (t *TLS) authorities(at *config.Node, data []byte) {
	if data == nil {
		return
	}
	t.config.RootCAs = x509.NewCertPool()
	found := 0
	for rest := data; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			at.Fail("certificate %d of %s can't be read: %v", found+1, at.Text(), err)
			return
		}
		warnOfTime(at, cert)
		t.config.RootCAs.AddCert(cert)
		found++
	}
	if found == 0 {
		at.Fail("%s has no certificate in PEM form (-----BEGIN CERTIFICATE-----)", at.Text())
	}
}

// own takes the gateway's own certificate. No message repeats what stands in the file of a key.
func (t *TLS) own(n *config.Node, cert, key []byte) {
	if cert == nil || key == nil {
		return
	}
	if !holdsPEM(cert, func(kind string) bool { return kind == "CERTIFICATE" }) {
		n.Get("cert_file").Fail("%s has no certificate in PEM form (-----BEGIN CERTIFICATE-----)", t.CertFile)
		return
	}
	if !holdsPEM(key, func(kind string) bool { return strings.HasSuffix(kind, "PRIVATE KEY") }) {
		n.Get("key_file").Fail("%s has no key in PEM form (-----BEGIN PRIVATE KEY-----)", t.KeyFile)
		return
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		n.Get("key_file").Fail("%s and %s are no certificate and its key: %s", t.CertFile, t.KeyFile, strings.TrimPrefix(err.Error(), "tls: "))
		return
	}
	warnOfTime(n.Get("cert_file"), pair.Leaf)
	t.config.Certificates = []tls.Certificate{pair}
}

func holdsPEM(data []byte, want func(kind string) bool) bool {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if want(block.Type) {
			return true
		}
	}
	return false
}

func warnOfTime(at *config.Node, cert *x509.Certificate) {
	switch now := time.Now(); {
	case cert == nil:
	case now.After(cert.NotAfter):
		at.Warn("the certificate of %s has expired at %s", cert.Subject, cert.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(cert.NotBefore):
		at.Warn("the certificate of %s is not valid before %s", cert.Subject, cert.NotBefore.UTC().Format(time.RFC3339))
	}
}

// Key is equal for settings, with the content of their files, that are equal; "" for a nil TLS.
func (t *TLS) Key() string {
	if t == nil {
		return ""
	}
	return t.key
}

// client is what crypto/tls is given.
func (t *TLS) client() *tls.Config {
	if t == nil || t.config == nil {
		return &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return t.config.Clone()
}
