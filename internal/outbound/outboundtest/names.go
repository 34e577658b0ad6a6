// Package outboundtest has what tests of outgoing connections need: names that resolve as a test says, and authorities
// that sign certificates.
package outboundtest

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// Names is a DNS that knows some names. It may be changed while it is asked.
type Names struct {
	mu    sync.Mutex
	addrs map[string][]netip.Addr
}

// Set makes a name lead to addresses from now on.
func (n *Names) Set(name string, addrs ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.addrs == nil {
		n.addrs = map[string][]netip.Addr{}
	}
	list := make([]netip.Addr, len(addrs))
	for i, a := range addrs {
		list[i] = netip.MustParseAddr(a)
	}
	n.addrs[name] = list
}

func (n *Names) of(name string) ([]netip.Addr, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	addrs, ok := n.addrs[strings.TrimSuffix(name, ".")]
	return addrs, ok
}

// Resolver asks n alone.
func (n *Names) Resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go n.serve(theirs) // ends when the resolver closes its end
		return ours, nil
	}}
}

// ForAll makes n the resolver of the whole process until the test ends.
func (n *Names) ForAll(t testing.TB) {
	t.Helper()
	before := net.DefaultResolver
	net.DefaultResolver = n.Resolver()
	t.Cleanup(func() { net.DefaultResolver = before })
}

// serve answers queries on a stream (RFC 1035, 4.2.2).
func (n *Names) serve(conn net.Conn) {
	defer conn.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(conn, query); err != nil {
			return
		}
		reply, err := n.answer(query)
		if err != nil {
			return
		}
		if _, err := conn.Write(binary.BigEndian.AppendUint16(nil, uint16(len(reply)))); err != nil { //nolint:gosec // a few names
			return
		}
		if _, err := conn.Write(reply); err != nil {
			return
		}
	}
}

func (n *Names) answer(query []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		return nil, err
	}
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	q := m.Questions[0]
	addrs, known := n.of(q.Name.String())
	if !known {
		m.RCode = dnsmessage.RCodeNameError
	}
	head := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}
	for _, a := range addrs {
		switch {
		case q.Type == dnsmessage.TypeA && a.Is4():
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: a.As4()}})
		case q.Type == dnsmessage.TypeAAAA && a.Is6():
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
		}
	}
	return m.Pack()
}
