// Package outbound is how the gateway dials: which addresses it connects to, by which TLS, and with which connection
// pools. Everything that asks somebody over HTTP gets its transport here. None uses a proxy of the environment, follows
// a redirect by itself, keeps cookies, or unpacks what was not asked to be packed.
//
// The check of addresses runs when a connection is made, on the address that is connected to: after the name was
// resolved, so that a name which changes its mind gets nobody further. A request on a kept connection costs nothing.
package outbound

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/idna"
)

// Dialer connects to hosts that the configuration names. Its zero value is ready, and for many goroutines.
type Dialer struct {
	Timeout  time.Duration // for one connection; default 10s
	Resolver *net.Resolver // default net.DefaultResolver
}

// DialContext connects to a host and port. A name that leads to an address of RefusedError is not connected to; an
// address of that sort which itself is the host, and the name of a metadata service, is what the operator wrote.
func (d Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: d.Timeout, KeepAlive: 30 * time.Second, Resolver: d.Resolver}
	if dialer.Timeout == 0 {
		dialer.Timeout = 10 * time.Second
	}
	if host, _, err := net.SplitHostPort(address); err != nil || !Special(host) {
		dialer.ControlContext = func(_ context.Context, _, resolved string, _ syscall.RawConn) error { return check(host, resolved) }
	}
	made, err := dialer.DialContext(ctx, network, address)
	if tcp, ok := made.(*net.TCPConn); ok {
		return conn{tcp}, nil
	}
	return made, err
}

// check is nil for an address, with its port, that host may lead to. What can't be read is refused.
func check(host, resolved string) error {
	at, err := netip.ParseAddrPort(resolved)
	if err != nil {
		return fmt.Errorf("outbound: the address %q can't be read", resolved)
	}
	if why := kindOf(at.Addr()); why != "" {
		return &RefusedError{Host: host, Addr: at.Addr(), Why: why}
	}
	return nil
}

// RefusedError is a connection that was not made for the address that it would have led to. It is for the log: it says
// the address. To try again is of no use.
type RefusedError struct {
	Host string     // as it stands in the url
	Addr netip.Addr // what it led to
	Why  string     // what kind of address that is
}

// Error says what was refused, why, and how it is allowed.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("refused: %s leads to %s, %s; where that is meant, write the address itself as the host in the configuration", e.Host, e.Addr, e.Why)
}

// Special says whether a host, without its port, is one that only a configuration may name: an address that no name may
// lead to, or the name of a cloud's metadata service. One that a foreign document names, such as the server of an OpenAPI
// document or a jwks_uri, is to be refused. A host that is not ASCII is looked at as net/http asks for it: one in wide
// letters is the same without them.
func Special(host string) bool {
	if !isASCII(host) {
		if ascii, err := idna.Lookup.ToASCII(host); err == nil {
			host = ascii
		}
	}
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return kindOf(addr) != ""
	}
	return metadataNames[strings.ToLower(strings.TrimSuffix(host, "."))]
}

// metadataNames are those of the metadata services that have one: Google Cloud, EC2, Tencent Cloud.
var metadataNames = map[string]bool{
	"metadata": true, "metadata.google.internal": true, "metadata.goog": true,
	"instance-data": true, "instance-data.ec2.internal": true,
	"metadata.tencentyun.com": true,
}
