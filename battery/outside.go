package battery

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// Outside is what lies outside every sandbox, within easy reach of anything that escapes: a secret in a file that
// everybody may read and write, and listeners that count their connections.
type Outside struct {
	Dir    string // holds the file "secret"
	Secret string

	listeners []net.Listener
	udp       net.PacketConn
	abstract  string
	visits    atomic.Int64
	serving   sync.WaitGroup
}

// openOutside creates it in a new directory below TMPDIR, and on the loopback device.
func openOutside() (o *Outside, err error) {
	dir, err := os.MkdirTemp("", "talaria-battery-")
	if err != nil {
		return nil, fmt.Errorf("make the outside: %w", err)
	}
	o = &Outside{Dir: dir, Secret: "secret-" + rand.Text()}
	o.abstract = "talaria-battery-" + rand.Text()
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("make the outside: %w", err), o.close())
		}
	}()
	if err := os.Chmod(dir, 0o755); err != nil {
		return o, err
	}
	secret := filepath.Join(dir, "secret")
	if err := errors.Join(os.WriteFile(secret, []byte(o.Secret), 0o600), os.Chmod(secret, 0o666)); err != nil {
		return o, err
	}
	for _, at := range []struct{ network, address string }{
		{"tcp", "127.0.0.1:0"}, {"unix", filepath.Join(dir, "socket")}, {"unix", "@" + o.abstract},
	} {
		listener, err := net.Listen(at.network, at.address)
		if err != nil {
			return o, err
		}
		o.listeners = append(o.listeners, listener)
		o.serving.Go(func() { o.accept(listener) })
	}
	if err := os.Chmod(filepath.Join(dir, "socket"), 0o777); err != nil {
		return o, err
	}
	o.udp, err = net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return o, err
	}
	o.serving.Go(o.receive)
	return o, nil
}

func (o *Outside) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		o.visits.Add(1)
		conn.Close()
	}
}

func (o *Outside) receive() {
	for {
		if _, _, err := o.udp.ReadFrom(make([]byte, 1)); err != nil {
			return
		}
		o.visits.Add(1)
	}
}

// places returns pairs of a word in cells and what it stands for.
func (o *Outside) places() []string {
	_, tcp, _ := net.SplitHostPort(o.listeners[0].Addr().String())
	_, udp, _ := net.SplitHostPort(o.udp.LocalAddr().String())
	return []string{"OUTSIDE", o.Dir, "TCP_PORT", tcp, "UDP_PORT", udp, "ABSTRACT", o.abstract}
}

// close removes everything.
func (o *Outside) close() error {
	var errs []error
	for _, listener := range o.listeners {
		errs = append(errs, listener.Close())
	}
	if o.udp != nil {
		errs = append(errs, o.udp.Close())
	}
	o.serving.Wait()
	return errors.Join(append(errs, os.RemoveAll(o.Dir))...)
}

// unchanged reports whether the secret is as it was.
func (o *Outside) unchanged() (bool, error) {
	b, err := os.ReadFile(filepath.Join(o.Dir, "secret"))
	return string(b) == o.Secret, err
}
