package outbound

import (
	"errors"
	"net/http"
	"sync"
	"time"
	"weak"
)

// MaxHeader bounds the header of a reply, in bytes.
const MaxHeader = 256 << 10

// Transport is a connection pool. Its dialer and TLS are not for changing; the limits of connections and the timeouts
// are, before its first request.
type Transport struct {
	*http.Transport
	direct *direct
}

// NewTransport is a pool whose connections d makes.
func NewTransport(d Dialer, t *TLS) *Transport {
	timeout := d.Timeout
	if timeout == 0 {
		timeout = 10 * time.Second
	}
	pool := &Transport{Transport: &http.Transport{
		DialContext:            d.DialContext,
		TLSClientConfig:        t.client(),
		TLSHandshakeTimeout:    timeout,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // who reads a reply decides what it may be packed as, and bounds what comes out
		MaxIdleConns:           4096,
		MaxIdleConnsPerHost:    1024,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: MaxHeader,
	}}
	pool.direct = newDirect(pool.Transport)
	return pool
}

// RoundTrip makes a request, over plain HTTP in the goroutine of who asks where it can.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.direct.takes(r) {
		return t.direct.RoundTrip(r)
	}
	return t.Transport.RoundTrip(r)
}

// CloseIdleConnections drops the kept connections.
func (t *Transport) CloseIdleConnections() {
	t.Transport.CloseIdleConnections()
	t.direct.CloseIdleConnections()
}

// Pools are the connection pools that tools share: one for all without TLS settings, one for each settings that some
// have. It is for many goroutines.
type Pools struct {
	*Transport
	dialer Dialer

	mu     sync.Mutex
	others map[string]weak.Pointer[Transport] // by TLS.Key; gone with the last tool that has it
}

// NewPools makes pools whose connections d makes.
func NewPools(d Dialer) *Pools {
	return &Pools{Transport: NewTransport(d, nil), dialer: d, others: map[string]weak.Pointer[Transport]{}}
}

// For is the pool of some settings; equal settings have the same.
func (p *Pools) For(t *TLS) http.RoundTripper {
	if t == nil {
		return p.Transport
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.others[t.key].Value(); known != nil {
		return known
	}
	for key, other := range p.others {
		if other.Value() == nil {
			delete(p.others, key)
		}
	}
	made := NewTransport(p.dialer, t)
	p.others[t.key] = weak.Make(made)
	return made
}

// CloseIdleConnections drops the kept connections of all pools.
func (p *Pools) CloseIdleConnections() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Transport.CloseIdleConnections()
	for _, other := range p.others {
		if t := other.Value(); t != nil {
			t.CloseIdleConnections()
		}
	}
}

// errNoTLS is a transport that knows no settings: to go on without them would trust whom the file does not.
var errNoTLS = errors.New("outbound: the transport takes no TLS settings")

// For is the transport for some TLS settings: the one that from gives for them by a method For, or from itself where
// there are none.
func For(from http.RoundTripper, t *TLS) (http.RoundTripper, error) {
	if t == nil {
		return from, nil
	}
	pools, ok := from.(interface {
		For(t *TLS) http.RoundTripper
	})
	if !ok {
		return nil, errNoTLS
	}
	return pools.For(t), nil
}
