package network

import (
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

func TestEntriesAreReadOrRefusedWithTheReason(t *testing.T) {
	for entry, want := range map[string]Rule{
		"example.org":         {Name: "example.org"},
		"Example.ORG.":        {Name: "example.org"},
		"example.org:443":     {Name: "example.org", Port: 443},
		"*.example.org:443":   {Name: "example.org", Below: true, Port: 443},
		"bücher.example":      {Name: "xn--bcher-kva.example"},
		"_srv.example.org":    {Name: "_srv.example.org"},
		"db":                  {Name: "db"},
		"host:5432":           {Name: "host", Port: 5432},
		"192.0.2.7":           {Prefix: netip.MustParsePrefix("192.0.2.7/32")},
		"192.0.2.7:5432":      {Prefix: netip.MustParsePrefix("192.0.2.7/32"), Port: 5432},
		"10.0.0.0/8":          {Prefix: netip.MustParsePrefix("10.0.0.0/8")},
		"10.0.0.0/8:5432":     {Prefix: netip.MustParsePrefix("10.0.0.0/8"), Port: 5432},
		"2001:db8::1":         {Prefix: netip.MustParsePrefix("2001:db8::1/128")},
		"[2001:db8::1]:443":   {Prefix: netip.MustParsePrefix("2001:db8::1/128"), Port: 443},
		"[2001:db8::/32]:443": {Prefix: netip.MustParsePrefix("2001:db8::/32"), Port: 443},
		"::ffff:192.0.2.7":    {Prefix: netip.MustParsePrefix("192.0.2.7/32")},
		"::ffff:10.0.0.0/104": {Prefix: netip.MustParsePrefix("10.0.0.0/8")},
	} {
		if got, err := ParseRule(entry); err != nil || got != want {
			t.Errorf("%s is %+v (%v), want %+v", entry, got, err, want)
		}
	}
	for entry, want := range map[string]string{
		"host":                  "needs a port, such as host:5432",
		"":                      "is not a host name",
		"*":                     "is not a host name",
		"*.org":                 "is not a host name", // everything below a top-level domain is not a list
		"*.*.example.org":       "is not a host name",
		"a..b":                  "is not a host name",
		"http://example.org":    "port",
		"example.org/path":      "is not a host name",
		"example.org:0":         "port",
		"example.org:65536":     "port",
		"example.org:https":     "port",
		"user@example.org":      "is not a host name",
		"[2001:db8::1":          "no ]",
		"[2001:db8::1]443":      "not a port",
		"10.0.0.1/8":            "10.0.0.0/8",
		"fe80::1%eth0":          "zone",
		strings.Repeat("a", 64): "is not a host name",
		"ex ample.org":          "is not a host name",
		"example.org\n":         "is not a host name",
	} {
		if r, err := ParseRule(entry); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %+v (%v), want an error with %q", entry, r, err, want)
		}
	}
}

// Servers of content have names with hyphens where only names in punycode have them otherwise.
func TestNamesMayHaveHyphensAnywhere(t *testing.T) {
	n := New(Config{Policy: policy(t, Full)})
	defer n.Close()
	for _, name := range []string{"r3---sn-4g5e6nsz.example.org", "ab--cd.example.org"} {
		var m dnsmessage.Message
		if err := m.Unpack(n.answerDNS(question(t, name+".", dnsmessage.TypeA))); err != nil || len(m.Answers) != 1 {
			t.Errorf("%s has no address: %v %v", name, m.RCode, err)
		}
		if r, err := ParseRule(name); err != nil || r.Name != name {
			t.Errorf("%s is %+v (%v)", name, r, err)
		}
	}
}

func policy(t *testing.T, mode Mode, entries ...string) Policy {
	t.Helper()
	rules, err := ParseRules(entries)
	if err != nil {
		t.Fatal(err)
	}
	return Policy{Mode: mode, Rules: rules}
}

func TestNamesAreComparedByWholeLabels(t *testing.T) {
	p := policy(t, Allow, "example.org:443", "*.wild.org:80", "any.org")
	for what, want := range map[string]bool{
		"example.org:443": true, "example.org:80": false, "www.example.org:443": false, "badexample.org:443": false,
		"example.org.evil.net:443": false, "a.wild.org:80": true, "a.b.wild.org:80": true, "wild.org:80": false,
		"evilwild.org:80": false, "a.wild.org:443": false, "any.org:1": true, "any.org:65535": true,
	} {
		host, port, err := splitPort(what)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.name(host, port); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	if p.names("www.example.org") || !p.names("a.wild.org") || p.names("wild.org") || p.names("") {
		t.Error("what may be looked up is not what is listed")
	}
}

func TestAddressesThatAreNotPublicHaveToBeListed(t *testing.T) {
	full, listed := policy(t, Full), policy(t, Full, "10.1.0.0/16:5432", "127.0.0.1")
	none, byName := policy(t, None), policy(t, Allow, "example.org")
	for _, text := range []string{
		"127.0.0.1", "127.8.8.8", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "100.100.100.200",
		"0.0.0.0", "0.1.2.3", "224.0.0.1", "255.255.255.255", "198.18.0.1", "192.0.0.192", "::", "::1", "fe80::1", "fc00::1",
		"fd00:ec2::254", "ff02::1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2001:0:7f00:1::", "::ffff:127.0.0.1",
		"168.63.129.16", "::127.0.0.1", "::2", "::ffff:0:127.0.0.1", "64:ff9b:1::1", "100::1", "100:0:0:1::1", "2001:2::1",
		"2001:db8::1", "3fff::1", "4000::1", "5f00::1", "fec0::1", "192.0.2.1", "192.88.99.1", "198.51.100.1", "203.0.113.1",
		"198.19.255.255", "240.0.0.1",
	} {
		addr := netip.MustParseAddr(text)
		if full.address(addr, 80, false) || byName.address(addr, 80, true) {
			t.Errorf("%s may be reached", text)
		}
	}
	for _, text := range []string{"1.1.1.1", "8.8.8.8", "172.32.0.1", "2606:4700::1111", "::ffff:1.1.1.1", "168.63.129.17", "2400::1", "2a00:1450::1", "3ffe::1"} {
		addr := netip.MustParseAddr(text)
		if !full.address(addr, 80, false) || !byName.address(addr, 80, true) {
			t.Errorf("%s may not be reached", text)
		}
		if byName.address(addr, 80, false) || none.address(addr, 80, true) {
			t.Errorf("%s may be reached without being listed", text)
		}
	}
	for text, want := range map[string]bool{
		"10.1.2.3:5432": true, "10.1.2.3:22": false, "10.2.0.1:5432": false, "127.0.0.1:1": true, "127.0.0.2:1": false,
	} {
		to := netip.MustParseAddrPort(text)
		if got := listed.address(to.Addr(), to.Port(), false); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

func TestAnEntryCoversWhatItListsAll(t *testing.T) {
	for _, c := range []struct {
		wide, narrow string
		want         bool
	}{
		{"example.org", "example.org:443", true}, {"example.org:443", "example.org", false},
		{"*.example.org", "a.example.org", true}, {"*.example.org", "example.org", false},
		{"*.example.org", "*.a.example.org:80", true}, {"*.a.example.org", "*.example.org", false},
		{"a.example.org", "*.a.example.org", false}, {"10.0.0.0/8", "10.1.0.0/16:22", true},
		{"10.1.0.0/16", "10.0.0.0/8", false}, {"10.0.0.0/8", "example.org", false}, {"example.org", "10.0.0.1", false},
		{"0.0.0.0/0", "2001:db8::/32", false},
	} {
		wide, err1 := ParseRule(c.wide)
		narrow, err2 := ParseRule(c.narrow)
		if got := wide.Covers(narrow); err1 != nil || err2 != nil || got != c.want {
			t.Errorf("%s covers %s: %v, want %v", c.wide, c.narrow, got, c.want)
		}
	}
	for entry, want := range map[string]bool{
		"example.org": true, "1.1.1.0/24": true, "10.0.0.0/8": false, "0.0.0.0/0": false, "127.0.0.1": false, "::/0": false,
	} {
		if r, err := ParseRule(entry); err != nil || r.IsPublic() != want {
			t.Errorf("%s is public: %v (%v)", entry, !want, err)
		}
	}
}

func TestEachNameHasAnAddressOfItsOwn(t *testing.T) {
	n := newNames()
	seen := map[netip.Addr]string{}
	for i := range 3 {
		for _, name := range []string{"a.org", "b.org", "c.org"} {
			addr := n.address(name)
			if !synthetic.Contains(addr) || seen[addr] != "" && seen[addr] != name || i > 0 && seen[addr] == "" {
				t.Fatalf("%s has %v, which was %q", name, addr, seen[addr])
			}
			seen[addr] = name
			if n.name(addr) != name {
				t.Errorf("%v is %q", addr, n.name(addr))
			}
		}
	}
	for i := range maxNames + 10 { // the first ones are forgotten
		n.address(strings.Repeat("x", 1+i%50) + string(rune('a'+i%26)) + string(rune(0x4e00+i)))
	}
	if len(n.byName) > maxNames || len(n.byName) != len(n.byAddr) {
		t.Errorf("%d names and %d addresses", len(n.byName), len(n.byAddr))
	}
}
