package auth

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/config"
)

// Network is one entry of `server.trusted_proxies`: a network in CIDR form, or a single address. The zero value has no
// address in it.
type Network struct{ prefix netip.Prefix }

// ParseNetwork reads a network, and says what would be right where it is none. What could be meant otherwise than it
// reads is refused, as is the network of all addresses: whoever is believed can be any caller.
func ParseNetwork(text string) (n Network, fault string) {
	const want = "want an address or a network, such as 10.0.0.1, 10.0.0.0/8 or fd00::/8"
	p, err := netip.ParsePrefix(text)
	if err != nil {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" {
			return n, want
		}
		p = netip.PrefixFrom(a, a.BitLen())
	}
	switch {
	case p.Addr().Is4In6():
		return n, "want an IPv4 address or network written as such, such as 10.0.0.0/8"
	case p.Bits() == 0:
		return n, "this network is everybody: want those of the proxies alone"
	case p != p.Masked():
		return n, "this address has more bits than its length says: want " + p.Masked().String() + ", or " + p.Addr().String() + " alone"
	}
	return Network{p}, ""
}

// DecodeNode reads a network.
func (n *Network) DecodeNode(node *config.Node) {
	text := ""
	if node.Kind() == config.String {
		text = node.Text()
	}
	var fault string
	if *n, fault = ParseNetwork(text); fault != "" {
		node.Fail("%s", fault)
	}
}

// ConfigSchema is the JSON Schema of a network.
func (Network) ConfigSchema() any { return map[string]any{"type": "string"} }

// plain is an address as networks are compared with it: IPv4 in IPv6 form is IPv4, and no zone.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

func has(networks []Network, a netip.Addr) bool {
	return slices.ContainsFunc(networks, func(n Network) bool { return n.prefix.Contains(a) })
}

// Client is where a request comes from: of the addresses that its proxies have noted in X-Forwarded-For, the right-most
// one that is no trusted proxy's own; the peer where the peer is none. What stands left of it anybody may have written.
// Where all are trusted it is the left-most. A proxy that noted what is no address is the last that is believed.
// forwarded is the header, one item a line, in its order.
func (t *Trust) Client(peer netip.Addr, forwarded []string) netip.Addr {
	client := plain(peer)
	for _, line := range slices.Backward(forwarded) {
		for line != "" && has(t.proxies, client) {
			i := strings.LastIndexByte(line, ',')
			a, ok := forwardedAddress(line[i+1:])
			if !ok {
				return client
			}
			client, line = a, line[:max(i, 0)]
		}
	}
	return client
}

// forwardedAddress reads one item of X-Forwarded-For. Some proxies add the port (Azure's Application Gateway does).
func forwardedAddress(text string) (netip.Addr, bool) {
	text = strings.TrimSpace(text)
	if at, err := netip.ParseAddrPort(text); err == nil {
		return plain(at.Addr()), true
	}
	if inner, ok := strings.CutPrefix(text, "["); ok {
		text = strings.TrimSuffix(inner, "]")
	}
	a, err := netip.ParseAddr(text)
	return plain(a), err == nil
}
