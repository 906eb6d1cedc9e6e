package network

import (
	"net/netip"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

func question(t testing.TB, name string, kind dnsmessage.Type) []byte {
	t.Helper()
	m := dnsmessage.Message{
		Header: dnsmessage.Header{ID: 7, RecursionDesired: true},
		Questions: []dnsmessage.Question{{
			Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET,
		}},
	}
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestOnlyPermittedNamesAreAnswered(t *testing.T) {
	var denied []Denial
	n := New(Config{Policy: policy(t, Allow, "example.org:443", "*.wild.org"), Denied: func(d Denial) { denied = append(denied, d) }})
	defer n.Close()
	for _, c := range []struct {
		name    string
		kind    dnsmessage.Type
		code    dnsmessage.RCode
		answers int
	}{
		{"example.org.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, 1},
		{"EXAMPLE.org.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, 1},
		{"example.org.", dnsmessage.TypeAAAA, dnsmessage.RCodeSuccess, 0},
		{"example.org.", dnsmessage.TypeTXT, dnsmessage.RCodeSuccess, 0},
		{"a.wild.org.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, 1},
		{"wild.org.", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
		{"secret-data.evil.net.", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
		{".", dnsmessage.TypeNS, dnsmessage.RCodeNameError, 0},
	} {
		var m dnsmessage.Message
		if err := m.Unpack(n.answerDNS(question(t, c.name, c.kind))); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if m.ID != 7 || !m.Response || m.RCode != c.code || len(m.Answers) != c.answers {
			t.Errorf("%s %v: %v with %d answers", c.name, c.kind, m.RCode, len(m.Answers))
		}
		for _, a := range m.Answers {
			addr := netip.AddrFrom4(a.Body.(*dnsmessage.AResource).A)
			if want := canonicalName(c.name[:len(c.name)-1]); n.names.name(addr) != want {
				t.Errorf("%s is at %v, which stands for %q", c.name, addr, n.names.name(addr))
			}
		}
	}
	if len(denied) != 3 || denied[1].String() != "lookup of secret-data.evil.net. refused: not in this session's network.allow" {
		t.Errorf("denied: %v", denied)
	}
}

func FuzzAnswerDNS(f *testing.F) {
	f.Add(question(f, "example.org.", dnsmessage.TypeA))
	f.Add(question(f, "evil.net.", dnsmessage.TypeTXT))
	f.Add([]byte{})
	f.Add([]byte("\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\xc0\x0c\x00\x01\x00\x01")) // a name that points at itself
	n := New(Config{Policy: Policy{Mode: Full}})
	f.Fuzz(func(t *testing.T, query []byte) {
		answer := n.answerDNS(query)
		var m dnsmessage.Message
		if answer != nil && (len(answer) > maxDNS || m.Unpack(answer) != nil || !m.Response) {
			t.Errorf("the answer to %q is %q", query, answer)
		}
	})
}
