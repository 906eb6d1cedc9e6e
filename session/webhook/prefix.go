package webhook

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"strings"
)

const maxURL = 2048 // bytes

// prefix is where tools may be: a scheme, a host with a port, and a path that is theirs and all below it.
type prefix struct {
	scheme, host string // host has a port
	path         string // ends in a slash
}

func parsePrefix(text string) (prefix, error) {
	u, err := parse(text)
	if err != nil {
		return prefix{}, err
	}
	if u.RawQuery != "" || u.ForceQuery {
		return prefix{}, fmt.Errorf("the prefix %q must not have a query", text)
	}
	return prefix{scheme: u.Scheme, host: hostOf(u), path: strings.TrimSuffix(u.Path, "/") + "/"}, nil
}

// has reports whether a tool's address, as parse returns it, is below the prefix.
func (p prefix) has(u *url.URL) bool {
	return u.Scheme == p.scheme && hostOf(u) == p.host && strings.HasPrefix(u.Path+"/", p.path)
}

// parse reads an absolute address and refuses whatever two programs could read in two ways: a path that a server may
// normalise, credentials, an IPv4 address written as an IPv6 address.
func parse(text string) (*url.URL, error) {
	refuse := func(why string) (*url.URL, error) { return nil, fmt.Errorf("the URL %.200q %s", text, why) }
	u, err := url.Parse(text)
	switch {
	case err != nil || len(text) > maxURL:
		return refuse(fmt.Sprintf("must be an http or https URL of at most %d bytes", maxURL))
	case u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.Opaque != "":
		return refuse("must begin with https:// or http:// and a host")
	case u.User != nil:
		return refuse("must not contain a user name or password")
	case u.Fragment != "" || strings.HasSuffix(text, "#"):
		return refuse("must not have a fragment")
	case u.EscapedPath() != u.Path || strings.ContainsAny(u.Path, `\%;`):
		return refuse("must have a path without escapes, backslashes and semicolons")
	}
	if clean := path.Clean("/" + u.Path); clean != strings.TrimSuffix(u.Path, "/") && clean != "/" || strings.HasPrefix(u.Path, "//") {
		return refuse("must have a path without empty, . and .. segments")
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil && (addr.Is4In6() || addr.Zone() != "") {
		return refuse("must name an address without a zone, and an IPv4 address as such")
	}
	return u, nil
}

// hostOf is the host with its port; an address in its one canonical form.
func hostOf(u *url.URL) string {
	host, port := strings.ToLower(u.Hostname()), u.Port()
	if addr, err := netip.ParseAddr(host); err == nil {
		host = addr.String()
	}
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	return net.JoinHostPort(host, port)
}
