// Package nameserver answers questions for names, for the tests and the bench.
package nameserver

import (
	"errors"
	"net"
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// Serve answers for these names, each with its one address, until conn is closed. It knows no others.
func Serve(conn net.PacketConn, hosts map[string]string) {
	for query := make([]byte, 1500); ; {
		n, from, err := conn.ReadFrom(query)
		if err != nil {
			return
		}
		if answer, err := answerFrom(hosts, query[:n]); err == nil {
			_, _ = conn.WriteTo(answer, from) // who does not get it asks again
		}
	}
}

func answerFrom(hosts map[string]string, query []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil || len(m.Questions) != 1 {
		return nil, errors.Join(err, errors.New("no question"))
	}
	q := m.Questions[0]
	m.Response, m.Additionals = true, nil
	addr, err := netip.ParseAddr(hosts[strings.TrimSuffix(strings.ToLower(q.Name.String()), ".")])
	head := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, Type: q.Type}
	switch {
	case err != nil:
		m.RCode = dnsmessage.RCodeNameError
	case addr.Is4() && q.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{Header: head, Body: &dnsmessage.AResource{A: addr.As4()}}}
	case addr.Is6() && q.Type == dnsmessage.TypeAAAA:
		m.Answers = []dnsmessage.Resource{{Header: head, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}}}
	}
	return m.Pack()
}
