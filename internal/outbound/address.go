package outbound

import (
	"encoding/binary"
	"net/netip"
)

// What is said of addresses that no name may lead to.
const (
	linkLocal   = "a link-local address, where clouds have their metadata services"
	metadata    = "a metadata service of a cloud"
	unspecified = "an address of no machine"
	multicast   = "an address of many machines"
)

// kinds are the networks that no name may lead to. Loopback and private networks are none: models, databases and
// services stand there.
var kinds = []struct {
	of  netip.Prefix
	why string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), unspecified}, // RFC 6890; Linux takes 0.0.0.0 for the machine itself
	{netip.MustParsePrefix("::/128"), unspecified},
	{netip.MustParsePrefix("169.254.0.0/16"), linkLocal}, // RFC 3927; .169.254 everywhere, .170.2 and .170.23 of AWS
	{netip.MustParsePrefix("fe80::/10"), linkLocal},      // RFC 4291, 2.5.6
	{netip.MustParsePrefix("224.0.0.0/4"), multicast},
	{netip.MustParsePrefix("255.255.255.255/32"), multicast},
	{netip.MustParsePrefix("ff00::/8"), multicast},
	{netip.MustParsePrefix("fd00:ec2::/32"), metadata},      // EC2: ::254, and ::23 for the identity of pods
	{netip.MustParsePrefix("fd20:ce::254/128"), metadata},   // Google Cloud
	{netip.MustParsePrefix("100.100.100.200/32"), metadata}, // Alibaba Cloud
	{netip.MustParsePrefix("168.63.129.16/32"), metadata},   // Azure's wire server
	{netip.MustParsePrefix("192.0.0.192/32"), metadata},     // Oracle Cloud at Customer
}

// kindOf is what kind of address it is that no name may lead to, "" for one that may be connected to.
func kindOf(addr netip.Addr) string {
	addr = addr.WithZone("").Unmap()
	for _, s := range kinds {
		if s.of.Contains(addr) {
			return s.why
		}
	}
	for _, inner := range embedded(addr) {
		why := kindOf(inner)
		if nat64Local.Contains(addr) && (why == unspecified || why == multicast) {
			continue // which bits are the address is a guess
		}
		if why != "" {
			return why + " (" + inner.String() + ")"
		}
	}
	return ""
}

var (
	compatible = netip.MustParsePrefix("::/96")           // RFC 4291, 2.5.5.1
	translated = netip.MustParsePrefix("::ffff:0:0:0/96") // RFC 2765
	nat64      = netip.MustParsePrefix("64:ff9b::/96")    // RFC 6052
	nat64Local = netip.MustParsePrefix("64:ff9b:1::/48")  // RFC 8215
	sixToFour  = netip.MustParsePrefix("2002::/16")       // RFC 3056
	teredo     = netip.MustParsePrefix("2001::/32")       // RFC 4380
)

// embedded are the IPv4 addresses that an IPv6 address may be taken to on its way.
func embedded(addr netip.Addr) []netip.Addr {
	if !addr.Is6() || addr.IsLoopback() {
		return nil
	}
	b := addr.As16()
	last := netip.AddrFrom4([4]byte(b[12:]))
	switch {
	case compatible.Contains(addr), translated.Contains(addr), nat64.Contains(addr):
		return []netip.Addr{last}
	case nat64Local.Contains(addr): // RFC 6052, 2.2, by the length of the network's own prefix: 48, 56, 64 or 96
		return []netip.Addr{
			last,
			netip.AddrFrom4([4]byte{b[6], b[7], b[9], b[10]}),
			netip.AddrFrom4([4]byte{b[7], b[9], b[10], b[11]}),
			netip.AddrFrom4([4]byte(b[9:13])),
		}
	case sixToFour.Contains(addr):
		return []netip.Addr{netip.AddrFrom4([4]byte(b[2:6]))}
	case teredo.Contains(addr):
		var plain [4]byte
		binary.BigEndian.PutUint32(plain[:], ^binary.BigEndian.Uint32(b[12:]))
		return []netip.Addr{netip.AddrFrom4(plain)}
	}
	return nil
}
