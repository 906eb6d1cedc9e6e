// Package network lets a session reach what it was permitted to, and nothing else. It consists of a policy and a
// TCP/IP stack outside the sandbox through which all traffic passes. It knows nothing of sessions or namespaces.
package network

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// Mode is how much a session may reach.
type Mode string

// The modes.
const (
	None  Mode = "none"  // nothing
	Allow Mode = "allow" // what is listed
	Full  Mode = "full"  // the public network, and what is listed
)

// Policy is what a session may reach. The zero value reaches nothing. It is immutable.
type Policy struct {
	Mode  Mode
	Rules []Rule
	// Hosts are reached by exactly these names, at every port and in every mode except None: they are sockets of this
	// machine, as [ParseHosts] returns them. Such a name is never looked up.
	Hosts map[string]string
}

// Rule lists one thing: a name, all names below a name, or a range of addresses, at one port or at any.
type Rule struct {
	Name   string // lower case ASCII, without a trailing dot; "" for a range
	Below  bool   // the names below Name, not Name itself
	Prefix netip.Prefix
	Port   uint16 // 0: any
}

// maxRules bounds a policy: each connection and each lookup looks at all rules.
const maxRules = 1000

// HostName in a rule is the server's own machine: host:5432 is port 5432 on its loopback interface. The name is never
// looked up.
const HostName = "host"

// ParseRules reads entries such as example.org, example.org:443, *.example.org:443, 192.0.2.7:5432, [2001:db8::1]:443,
// 10.0.0.0/8, 10.0.0.0/8:5432 and host:5432. The error names the entry.
func ParseRules(entries []string) ([]Rule, error) {
	if len(entries) > maxRules {
		return nil, fmt.Errorf("%d entries are too many; at most %d", len(entries), maxRules)
	}
	rules := make([]Rule, 0, len(entries))
	for _, e := range entries {
		r, err := ParseRule(e)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// ParseRule reads one entry.
func ParseRule(entry string) (Rule, error) {
	bad := func(why string) (Rule, error) {
		return Rule{}, fmt.Errorf("%.100q %s; give a host, host:port, *.host:port or a range like 10.0.0.0/8", entry, why)
	}
	host, port, err := splitPort(entry)
	if err != nil {
		return bad(err.Error())
	}
	r := Rule{Port: port}
	if prefix, err := netip.ParsePrefix(host); err == nil {
		if prefix != prefix.Masked() {
			return bad("has bits set beyond its length; you probably mean " + prefix.Masked().String())
		}
		r.Prefix = unmapPrefix(prefix)
		return r, nil
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return bad("has a zone")
		}
		addr = addr.Unmap()
		r.Prefix = netip.PrefixFrom(addr, addr.BitLen())
		return r, nil
	}
	if rest, ok := strings.CutPrefix(host, "*."); ok {
		host, r.Below = rest, true
	}
	if r.Name = canonicalName(host); r.Name == "" || r.Below && !strings.Contains(r.Name, ".") {
		return bad("is not a host name")
	}
	if r.isHost() && r.Port == 0 {
		return bad("is the server's own machine and needs a port, such as host:5432")
	}
	return r, nil
}

// splitPort splits the port off an entry.
func splitPort(entry string) (host string, port uint16, err error) {
	host = entry
	var text string
	switch {
	case strings.HasPrefix(entry, "["): // an IPv6 address
		inside, rest, ok := strings.Cut(entry[1:], "]")
		if !ok {
			return "", 0, fmt.Errorf("has no ]")
		}
		if rest == "" {
			return inside, 0, nil
		}
		if host, text, ok = inside, strings.TrimPrefix(rest, ":"), strings.HasPrefix(rest, ":"); !ok {
			return "", 0, fmt.Errorf("has text after ] that is not a port")
		}
	case strings.Count(entry, ":") == 1:
		host, text, _ = strings.Cut(entry, ":")
	default:
		return entry, 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("has no port between 1 and 65535")
	}
	return host, uint16(n), nil
}

func unmapPrefix(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}

// Hyphens may be anywhere, as in r3---sn-4g5e6nsz.googlevideo.com.
var profile = idna.New(idna.MapForLookup(), idna.StrictDomainName(false), idna.CheckHyphens(false), idna.Transitional(false))

// canonicalName returns a name in the form that rules use, or "" if it is not a name.
func canonicalName(name string) string {
	name = strings.TrimSuffix(name, ".")
	ascii, err := profile.ToASCII(name)
	if err != nil || ascii == "" || len(ascii) > 253 {
		return ""
	}
	ascii = strings.ToLower(ascii)
	for label := range strings.SplitSeq(ascii, ".") {
		if label == "" || len(label) > 63 {
			return ""
		}
		for _, c := range []byte(label) {
			if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
				return ""
			}
		}
	}
	return ascii
}

// names reports whether the policy lets that canonical name be looked up.
func (p Policy) names(name string) bool {
	if name == "" {
		return false
	}
	switch p.Mode {
	case Full:
		return true
	case Allow:
		if p.hosts(name) {
			return true
		}
		for _, r := range p.Rules {
			if r.hasName(name) {
				return true
			}
		}
	}
	return false
}

// name reports whether the policy lets that canonical name be dialled at a port.
func (p Policy) name(name string, port uint16) bool {
	if p.Mode == Full && name != HostName {
		return name != ""
	}
	return (p.Mode == Allow || p.Mode == Full) && (p.hosts(name) || p.lists(name, port))
}

// address reports whether the policy lets an address be dialled. named says that a permitted name stands for it: then
// it may be any public address.
func (p Policy) address(addr netip.Addr, port uint16, named bool) bool {
	addr = addr.Unmap()
	if p.Mode != Allow && p.Mode != Full {
		return false
	}
	return p.listsAddress(addr, port) || (p.Mode == Full || named) && isPublic(addr)
}

// listsAddress reports whether a rule lists the address itself, so that even this host may be reached at it.
func (p Policy) listsAddress(addr netip.Addr, port uint16) bool {
	for _, r := range p.Rules {
		if r.Prefix.IsValid() && r.Prefix.Contains(addr) && (r.Port == 0 || r.Port == port) {
			return true
		}
	}
	return false
}

func (p Policy) lists(name string, port uint16) bool {
	for _, r := range p.Rules {
		if r.hasName(name) && (r.Port == 0 || r.Port == port) {
			return true
		}
	}
	return false
}

func (r Rule) hasName(name string) bool {
	if r.Name == "" {
		return false
	}
	if r.Below {
		above, ok := strings.CutSuffix(name, "."+r.Name)
		return ok && above != ""
	}
	return name == r.Name
}

// isHost reports whether the rule lists a port of the server's own machine.
func (r Rule) isHost() bool { return r.Name == HostName && !r.Below }

// Covers reports whether r lists everything that other lists.
func (r Rule) Covers(other Rule) bool {
	if r.Port != 0 && r.Port != other.Port {
		return false
	}
	if r.Prefix.IsValid() || other.Prefix.IsValid() {
		return r.Prefix.IsValid() && other.Prefix.IsValid() && r.Prefix.Bits() <= other.Prefix.Bits() &&
			r.Prefix.Contains(other.Prefix.Addr())
	}
	if other.Below {
		return r.Below && (r.Name == other.Name || strings.HasSuffix(other.Name, "."+r.Name))
	}
	return r.hasName(other.Name)
}

// IsPublic reports whether everything that the rule lists is part of the public network, as far as the rule can tell:
// a name may still resolve to an address that is not, which is refused when it is dialled.
func (r Rule) IsPublic() bool {
	if !r.Prefix.IsValid() {
		return !r.isHost()
	}
	return isPublic(r.Prefix.Addr()) && !overlapsReserved(r.Prefix)
}
