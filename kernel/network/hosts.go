package network

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// ParseHosts parses the names that stand for sockets of this machine; each value is unix: followed by an absolute
// path. The keys of the result are canonical names, its values paths.
func ParseHosts(hosts map[string]string) (map[string]string, error) {
	sockets := make(map[string]string, len(hosts))
	for name, at := range hosts {
		canonical := canonicalName(name)
		path, ok := strings.CutPrefix(at, "unix:")
		if canonical == "" || !ok || !filepath.IsAbs(path) {
			return nil, fmt.Errorf("the host %.100q is at %.200q; give a name, and unix: with the absolute path of a socket", name, at)
		}
		sockets[canonical] = path
	}
	return sockets, nil
}

// hosts reports whether that canonical name stands for a socket of this machine.
func (p Policy) hosts(name string) bool {
	_, ok := p.Hosts[name]
	return ok
}

// dialSocket connects to a socket of this machine. The path of a socket has at most 107 bytes, and its folder's path
// may be longer, so it is reached through the descriptor of the folder.
func dialSocket(ctx context.Context, path string) (net.Conn, error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", path, err)
	}
	return conn, nil
}
