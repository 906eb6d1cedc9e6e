package zmqkernel

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
)

// Connection is a connection file, by which a Jupyter client tells a kernel where to listen. Its fields are those of
// https://jupyter-client.readthedocs.io/en/stable/kernels.html#connection-files.
type Connection struct {
	Transport string `json:"transport"`
	IP        string `json:"ip"`
	Key       string `json:"key"`
	Scheme    string `json:"signature_scheme"`
	Shell     int    `json:"shell_port"`
	Control   int    `json:"control_port"`
	Stdin     int    `json:"stdin_port"`
	IOPub     int    `json:"iopub_port"`
	Heartbeat int    `json:"hb_port"`
}

// ReadConnection reads a connection file.
func ReadConnection(path string) (c Connection, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return c, fmt.Errorf("read the connection file: %w", err)
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return c, fmt.Errorf("%s is not a connection file: %w", path, err)
	}
	switch {
	case c.Transport != "tcp" && c.Transport != "ipc":
		return c, fmt.Errorf("%s: the transport is %q; only tcp and ipc are supported", path, c.Transport)
	case c.IP == "":
		return c, fmt.Errorf("%s: ip is missing", path)
	case c.Key != "" && c.Scheme != "hmac-sha256":
		return c, fmt.Errorf("%s: the signature scheme is %q; only hmac-sha256 is supported", path, c.Scheme)
	}
	for name, port := range map[string]int{"shell_port": c.Shell, "control_port": c.Control, "stdin_port": c.Stdin,
		"iopub_port": c.IOPub, "hb_port": c.Heartbeat} {
		if port < 1 || port > 1<<16-1 {
			return c, fmt.Errorf("%s: %s is %d, not the number of a port", path, name, port)
		}
	}
	return c, nil
}

// endpoint is where a socket listens, as ZeroMQ writes it.
func (c Connection) endpoint(port int) string {
	if c.Transport == "ipc" {
		return fmt.Sprintf("ipc://%s-%d", c.IP, port)
	}
	return "tcp://" + net.JoinHostPort(c.IP, strconv.Itoa(port))
}
