package outbound

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/toolgate/toolgate/internal/outbound/outboundtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestKindsOfAddresses(t *testing.T) {
	for why, addrs := range map[string][]string{
		"": {
			"127.0.0.1", "::1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "fd12:3456::1", "fc00::1", "100.64.0.1", "100.100.100.201",
			"8.8.8.8", "2606:4700::1", "::ffff:127.0.0.1", "64:ff9b::8.8.8.8", "2002:808:808::1", "169.253.255.255", "169.255.0.0",
			"168.63.129.17", "fec0::1", "198.18.0.1", "64:ff9b:1::8.8.8.8",
		},
		linkLocal: {
			"169.254.0.0", "169.254.169.254", "169.254.170.2", "169.254.255.255", "fe80::1", "fe80::1%eth0", "febf::1",
			"::ffff:169.254.169.254",
		},
		linkLocal + " (169.254.169.254)": {
			"64:ff9b::169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "::169.254.169.254", "::ffff:0:169.254.169.254",
			"64:ff9b:1::169.254.169.254", "64:ff9b:1:a9fe:a9:fe00::", "64:ff9b:1:ffff:a9:fea9:fe00:0",
			"2001:0:4136:e378:8000:63bf:5601:5601", // Teredo has the bits of the client's address turned over
		},
		metadata:                        {"fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "100.100.100.200", "168.63.129.16", "::ffff:100.100.100.200", "192.0.0.192"},
		metadata + " (100.100.100.200)": {"64:ff9b::100.100.100.200"},
		unspecified:                     {"0.0.0.0", "0.1.2.3", "::", "::ffff:0.0.0.0"},
		unspecified + " (0.0.0.0)":      {"64:ff9b::"},
		multicast:                       {"224.0.0.1", "239.255.255.250", "255.255.255.255", "ff02::1"},
	} {
		for _, addr := range addrs {
			if got := kindOf(netip.MustParseAddr(addr)); got != why {
				t.Errorf("%s is %q, want %q", addr, got, why)
			}
		}
	}
}

// However an address of IPv4 is wrapped, it is the same one.
func TestWrappedAddressesAreOfTheSameKind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := [4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "address"))
		if rapid.Bool().Draw(t, "link-local") {
			b[0], b[1] = 169, 254
		}
		plain := netip.AddrFrom4(b)
		refused := kindOf(plain) != ""
		wrap := func(prefix string, at int) netip.Addr {
			a := netip.MustParseAddr(prefix).As16()
			copy(a[at:], b[:])
			return netip.AddrFrom16(a)
		}
		for _, wrapped := range []netip.Addr{
			netip.AddrFrom16(plain.As16()), wrap("64:ff9b::", 12), wrap("2002::", 2), wrap("::ffff:0:0:0", 12),
		} {
			if (kindOf(wrapped) != "") != refused {
				t.Fatalf("%s is %q, %s is %q", wrapped, kindOf(wrapped), plain, kindOf(plain))
			}
		}
	})
}

func TestSpecialHosts(t *testing.T) {
	for host, want := range map[string]bool{
		"169.254.169.254": true, "[fe80::1]": true, "fe80::1%eth0": true, "fd00:ec2::254": true, "0.0.0.0": true,
		"metadata.google.internal": true, "METADATA.google.internal.": true, "instance-data": true,
		"ｍetadata.google.internal": true, "metadata。google。internal。": true, "１６９.254.169.254": true, "bücher.example": false,
		"localhost": false, "127.0.0.1": false, "api.example.com": false, "metadata.example.com": false, "": false,
	} {
		if got := Special(host); got != want {
			t.Errorf("Special(%q) = %v", host, got)
		}
	}
}

// get asks an address by a pool that resolves by names.
func get(t *testing.T, names *outboundtest.Names, address string) (string, error) {
	t.Helper()
	pool := NewPools(Dialer{Resolver: names.Resolver()})
	defer pool.CloseIdleConnections()
	data, err := fetch(t.Context(), pool, address, 1<<10)
	return string(data), err
}

func hello(t *testing.T) (port string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	t.Cleanup(s.Close)
	_, port, _ = net.SplitHostPort(s.Listener.Addr().String())
	return port
}

func TestANameThatLeadsToAMetadataServiceIsNotDialled(t *testing.T) {
	for _, addr := range []string{"169.254.169.254", "fe80::1", "fd00:ec2::254", "100.100.100.200", "168.63.129.16", "0.0.0.0", "224.0.0.1", "64:ff9b::a9fe:a9fe"} {
		names := &outboundtest.Names{}
		names.Set("innocent.test", addr)
		_, err := get(t, names, "http://innocent.test/latest/meta-data")
		refused, ok := errors.AsType[*RefusedError](err)
		if !ok {
			t.Errorf("%s: %v, want it refused", addr, err)
			continue
		}
		for _, say := range []string{"innocent.test", addr, refused.Why, "write the address itself as the host"} {
			if !strings.Contains(err.Error(), say) {
				t.Errorf("%s: %v, want it to say %q", addr, err, say)
			}
		}
	}
}

func TestLoopbackAndPrivateNetworksAreDialled(t *testing.T) {
	port := hello(t)
	names := &outboundtest.Names{}
	names.Set("model.test", "127.0.0.1")
	for _, host := range []string{"model.test", "127.0.0.1", "localhost"} {
		if got, err := get(t, names, "http://"+host+":"+port); got != "hello" || err != nil {
			t.Errorf("%s: %q, %v", host, got, err)
		}
	}
	names.Set("private.test", "10.255.255.1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Dialer{Resolver: names.Resolver()}.DialContext(ctx, "tcp", "10.255.255.1:9")
	if _, refused := errors.AsType[*RefusedError](err); refused {
		t.Error(err)
	}
}

// A name that was good when somebody looked at it may lead elsewhere when it is dialled.
func TestANameThatChangesItsMindIsNotDialled(t *testing.T) {
	port := hello(t)
	names := &outboundtest.Names{}
	names.Set("rebinding.test", "127.0.0.1")
	if _, err := get(t, names, "http://rebinding.test:"+port); err != nil {
		t.Fatal(err)
	}
	names.Set("rebinding.test", "169.254.169.254")
	if _, err := get(t, names, "http://rebinding.test:"+port); !isRefused(err) {
		t.Errorf("%v, want it refused", err)
	}
}

func isRefused(err error) bool {
	_, ok := errors.AsType[*RefusedError](err)
	return ok
}

// What is written as the host is meant. 0.0.0.0 is the machine itself to Linux, so that something answers.
func TestAnAddressThatIsWrittenIsDialled(t *testing.T) {
	port := hello(t)
	names := &outboundtest.Names{}
	if got, err := get(t, names, "http://0.0.0.0:"+port); got != "hello" || err != nil {
		t.Errorf("0.0.0.0: %q, %v", got, err)
	}
	names.Set("metadata.google.internal", "0.0.0.0")
	names.Set("other.google.internal", "0.0.0.0")
	if got, err := get(t, names, "http://metadata.google.internal:"+port); got != "hello" || err != nil {
		t.Errorf("metadata.google.internal: %q, %v", got, err)
	}
	if _, err := get(t, names, "http://other.google.internal:"+port); !isRefused(err) {
		t.Errorf("other.google.internal: %v, want it refused", err)
	}
}

func TestOfSeveralAddressesTheGoodOneIsDialled(t *testing.T) {
	port := hello(t)
	names := &outboundtest.Names{}
	names.Set("two.test", "169.254.169.254", "127.0.0.1")
	if got, err := get(t, names, "http://two.test:"+port); got != "hello" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestNoProxyOfTheEnvironmentIsUsed(t *testing.T) {
	port := hello(t)
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:1")
	}
	names := &outboundtest.Names{}
	names.Set("model.test", "127.0.0.1")
	if got, err := get(t, names, "http://model.test:"+port); got != "hello" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if NewTransport(Dialer{}, nil).Proxy != nil {
		t.Error("the transport has a proxy")
	}
}

// fetch is the body of a 200, up to limit bytes.
func fetch(ctx context.Context, by http.RoundTripper, address string, limit int64) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	reply, err := by.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return nil, errors.New(reply.Status)
	}
	return io.ReadAll(io.LimitReader(reply.Body, limit))
}
