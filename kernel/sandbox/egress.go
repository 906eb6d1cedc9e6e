package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"talaria/kernel"
	"talaria/kernel/network"
)

var _ kernel.Networker = (*Sandbox)(nil)

// The addresses of the proxies for programs inside, on the loopback of the sandbox, if there is no network device.
const (
	proxyPort = 3128
	socksPort = 1080
)

// runOutside starts the code that works in a sandbox's network namespace from outside the sandbox: Go has threads, and
// a process with threads may not join a user namespace.
const runOutside = "import os, sys; sys.path.insert(0, os.environ['" + libraryVariable + "'])\n" +
	"from talaria_init.device import main\nmain(*sys.argv[1:])"

// OpenEgress makes a network device inside, or proxies if the system has no devices. No process of the session has any
// right over either. It is called once; what it made ends with the sandbox, or when its files are closed.
func (s *Sandbox) OpenEgress(ctx context.Context) (kernel.Egress, error) {
	exit, err := s.makeExit(ctx)
	if err != nil {
		return kernel.Egress{}, fmt.Errorf("provide egress for the sandbox: %w", err)
	}
	return exit, nil
}

func (s *Sandbox) makeExit(ctx context.Context) (exit kernel.Egress, err error) {
	if !s.backend.tier.Contained() {
		return exit, fmt.Errorf("tier %s has none: its network is the machine's", s.backend.tier.Name())
	}
	r, files, err := s.outside(ctx, "exit", network.Device.String(), network.Device6.String(),
		strconv.Itoa(network.MTU), strconv.Itoa(proxyPort), strconv.Itoa(socksPort))
	if err != nil {
		return exit, err
	}
	defer func() {
		if err != nil {
			closeAll(files)
		}
	}()
	switch {
	case r.Op == "device" && len(files) == 1:
		return kernel.Egress{Device: files[0]}, nil
	case r.Op == "proxy" && len(files) == 2:
		return kernel.Egress{
			HTTP: files[0], SOCKS: files[1], Why: r.Error,
			Env: proxyVariables(fmt.Sprint("127.0.0.1:", proxyPort), fmt.Sprint("127.0.0.1:", socksPort)),
		}, nil
	}
	return exit, fmt.Errorf("its answer %q with %d descriptors is invalid", r.Op, len(files))
}

// outside runs a step of device.py in a process outside the sandbox that joins its network namespace, and returns the
// reply and the descriptors that the step made. The caller owns these.
func (s *Sandbox) outside(ctx context.Context, args ...string) (r reply, files []*os.File, err error) {
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", s.handle.PID))
	if err != nil {
		return r, nil, err
	}
	defer namespace.Close()
	select {
	case <-s.reaped: // the pid may then belong to another process
		return r, nil, s.lost()
	default:
	}
	host, inside, err := socketPair()
	if err != nil {
		return r, nil, err
	}
	defer host.Close()
	defer inside.Close()
	var words tail
	cmd := exec.CommandContext(ctx, s.env.Python, append([]string{"-I", "-S", "-c", runOutside}, args...)...)
	cmd.Env = append(slices.Clone(pythonEnv), libraryVariable+"="+s.backend.library.dir)
	cmd.Dir, cmd.Stderr = "/", &words
	cmd.ExtraFiles = []*os.File{inside, namespace}
	// No Pdeathsig: it is sent when the thread that made the child ends, as the threads of [Backend.asOwner] do.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return r, nil, err
	}
	inside.Close()
	packet, rights := make([]byte, maxReply), make([]byte, unix.CmsgSpace(2*4))
	n, nrights, _, _, err := host.ReadMsgUnix(packet, rights)
	ended := cmd.Wait()
	if n == 0 || err != nil {
		return r, nil, fmt.Errorf("it ended without an answer: %w: %s", errors.Join(err, ended), strings.TrimSpace(words.String()))
	}
	if files, err = receivedFiles(rights[:nrights]); err != nil {
		return r, nil, err
	}
	if err := json.Unmarshal(packet[:n], &r); err != nil {
		closeAll(files)
		return r, nil, err
	}
	if r.Op == "failed" {
		return r, nil, &stepError{message: r.Error, step: r.Step, errno: syscall.Errno(r.Errno)}
	}
	return r, files, nil
}

// proxyVariables are the variables in which programs look for proxies.
func proxyVariables(http, socks string) map[string]string {
	env := map[string]string{}
	for name, value := range map[string]string{
		"http_proxy": "http://" + http, "https_proxy": "http://" + http, "all_proxy": "socks5h://" + socks,
		"no_proxy": "localhost,127.0.0.1,::1",
	} {
		env[name], env[strings.ToUpper(name)] = value, value
	}
	return env
}

func receivedFiles(rights []byte) (files []*os.File, err error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return nil, err
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "egress"))
		}
	}
	return files, nil
}
