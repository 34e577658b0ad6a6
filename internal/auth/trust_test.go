package auth

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/config"
)

// trust is the Trust of a section with both lists, which has to be good.
func trust(t *testing.T, yaml string) *Trust {
	t.Helper()
	var c struct {
		Proxies []Network          `yaml:"proxies"`
		Headers config.Map[string] `yaml:"headers"`
	}
	f := config.Parse("t.yaml", ".", []byte(yaml), func(string) (string, bool) { return "", false })
	f.Decode(&c)
	if p := f.Problems(); p != nil {
		t.Fatal(p)
	}
	tr := NewTrust(c.Proxies, c.Headers)
	return &tr
}

func TestClientIsTheRightmostAddressThatNoProxyIs(t *testing.T) {
	const proxies = `proxies: [10.0.0.0/8, 192.0.2.7, "fd00::/8", "2001:db8::1"]`
	for _, tt := range []struct {
		name, peer string
		header     []string
		want       string
	}{
		{"a peer that is no proxy is the client, whatever it says", "203.0.113.9", []string{"198.51.100.1"}, "203.0.113.9"},
		{"without the header the proxy is the client", "10.0.0.1", nil, "10.0.0.1"},
		{"one address", "10.0.0.1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"what stands left of the client anybody may have written", "10.0.0.1", []string{"127.0.0.1, 10.0.0.9, 198.51.100.1"}, "198.51.100.1"},
		{"proxies in a row", "10.0.0.1", []string{"6.6.6.6, 198.51.100.1, 192.0.2.7,10.9.9.9"}, "198.51.100.1"},
		{"a neighbour of a single address is no proxy", "10.0.0.1", []string{"198.51.100.1, 192.0.2.8"}, "192.0.2.8"},
		{"several headers are one list", "10.0.0.1", []string{"6.6.6.6", "198.51.100.1, 10.0.0.2", "10.0.0.3"}, "198.51.100.1"},
		{"where all are proxies, the first of them", "10.0.0.1", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"behind what is no address nobody is believed", "10.0.0.1", []string{"198.51.100.1, unknown, 10.0.0.2"}, "10.0.0.2"},
		{"nor behind an empty item", "10.0.0.1", []string{"198.51.100.1, , 10.0.0.2"}, "10.0.0.2"},
		{"nothing but noise", "10.0.0.1", []string{"<script>"}, "10.0.0.1"},
		{"IPv6", "fd00::1", []string{"2001:db8::2, 2001:db8::1"}, "2001:db8::2"},
		{"IPv6 with brackets and port, as some write it", "2001:db8::1", []string{"[2001:db8::2]:4711, [fd00::2]"}, "2001:db8::2"},
		{"IPv4 with a port", "10.0.0.1", []string{"198.51.100.1:4711"}, "198.51.100.1"},
		{"IPv4 in IPv6 form is IPv4", "::ffff:10.0.0.1", []string{"::ffff:198.51.100.1, ::ffff:10.0.0.2"}, "198.51.100.1"},
		{"the zone of a peer says nothing", "fd00::1%eth0", []string{"198.51.100.1"}, "198.51.100.1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := trust(t, proxies).Client(netip.MustParseAddr(tt.peer), tt.header); got.String() != tt.want {
				t.Errorf("Client(%s, %q) = %s, want %s", tt.peer, tt.header, got, tt.want)
			}
		})
	}
	var none Trust
	if got := none.Client(netip.MustParseAddr("127.0.0.1"), []string{"198.51.100.1"}); got.String() != "127.0.0.1" || none.Proxy(got) {
		t.Errorf("without proxies: %s, Proxy %v; want the peer and nobody believed", got, none.Proxy(got))
	}
}

func FuzzClientIsThePeerOrOneThatAProxyNamed(f *testing.F) {
	f.Add("198.51.100.1, 10.0.0.2", "10.0.0.3")
	f.Add("[::1]:1,", "a")
	f.Fuzz(func(t *testing.T, first, second string) {
		tr := trust(t, "proxies: [10.0.0.0/8]")
		peer := netip.MustParseAddr("10.0.0.1")
		got := tr.Client(peer, []string{first, second})
		if !got.IsValid() || got.Zone() != "" || got.Is4In6() {
			t.Fatalf("Client() = %v", got)
		}
		if got != peer && !tr.Proxy(got) { // then a longer list changes nothing
			if again := tr.Client(peer, []string{"6.6.6.6", first, second}); again != got {
				t.Errorf("a client's own header changed %s to %s", got, again)
			}
		}
	})
}

func TestFieldsAreThoseOfTheHeaders(t *testing.T) {
	tr := trust(t, "headers: {id: X-User-Id, level: x-user-level}")
	for _, tt := range []struct {
		name   string
		header map[string][]string
		want   map[string]any
		bad    string
	}{
		{name: "none", header: map[string][]string{"X-Other": {"x"}}},
		{name: "some", header: map[string][]string{"X-User-Level": {"2"}}, want: map[string]any{"level": "2"}},
		{name: "an empty one is none", header: map[string][]string{"X-User-Id": {""}, "X-User-Level": {"2"}}, want: map[string]any{"level": "2"}},
		{name: "one that stands twice", header: map[string][]string{"X-User-Id": {"admin", "ann"}}, bad: "X-User-Id: this header tells who calls and stands here more than once"},
		{name: "one that stands twice alike", header: map[string][]string{"X-User-Id": {"ann", "ann"}}, bad: "more than once"},
		{name: "bytes that are no text", header: map[string][]string{"X-User-Level": {"\xff"}}, bad: "UTF-8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tr.Fields(tt.header)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
			bad, ok := errors.AsType[*BadHeader](err)
			if ok != (tt.bad != "") || ok && (!strings.Contains(bad.Error(), tt.bad) || strings.Contains(bad.Error(), "ann")) {
				t.Errorf("error = %v, want %q", err, tt.bad)
			}
		})
	}
	for header, want := range map[string]bool{"X-User-Id": true, "X_user_id": true, "X-User-Level": true, "X-User": false} {
		if tr.Names(header) != want {
			t.Errorf("Names(%s) = %v", header, !want)
		}
	}
}

func TestWhatTheKeySaysStays(t *testing.T) {
	c := &Caller{Name: "web", Fields: map[string]any{"id": "web"}}
	with := c.With(map[string]any{"id": "admin", "level": "2"})
	if diff := cmp.Diff(map[string]any{"id": "web", "level": "2"}, with.Fields); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	if !with.Passing || with.Name != "web" || c.Passing || len(c.Fields) != 1 {
		t.Errorf("With() = %+v of %+v; want a copy for one request", with, c)
	}
	if c.With(nil) != c {
		t.Error("without fields it is another caller")
	}
}
