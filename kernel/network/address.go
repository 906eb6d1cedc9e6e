package network

import "net/netip"

// reserved are the ranges that are not part of the public network: this host, private networks, metadata services of
// clouds, translations that would lead to any of them, and everything that is not unicast. In IPv6 only 2000::/3 is
// assigned as global unicast. Sources: the IANA registries of special-purpose IPv4 and IPv6 addresses and of the IPv6
// address space. Only Azure's host agent has an address that looks public, 168.63.129.16.
var reserved = func() []netip.Prefix {
	var all []netip.Prefix
	for _, p := range []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16", "172.16.0.0/12",
		"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
		"203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
		"::/3", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "4000::/2", "8000::/1",
	} {
		all = append(all, netip.MustParsePrefix(p))
	}
	return all
}()

// isPublic reports whether an address belongs to the public network. It must not be an IPv4-mapped one.
func isPublic(addr netip.Addr) bool {
	if !addr.IsValid() || addr.Zone() != "" || addr.Is4In6() {
		return false
	}
	for _, p := range reserved {
		if p.Contains(addr) {
			return false
		}
	}
	return true
}

func overlapsReserved(p netip.Prefix) bool {
	for _, r := range reserved {
		if r.Overlaps(p) {
			return true
		}
	}
	return false
}
