package hermes

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"talaria/api"
)

const (
	// handshakeTime bounds the whole request.
	handshakeTime = 10 * time.Second
	// maxFDs bounds the descriptors of a request: the runner's, three of streams, and those that a client may have for its program.
	maxFDs = 12
	// maxLine bounds a request that is kept. A program may get 128 KiB of arguments and variables, whose bytes take up to six in JSON.
	maxLine = 1 << 20
	// maxDiscarded bounds a longer request that is read to its end, so that the client finishes sending and reads the refusal.
	maxDiscarded = 16 << 20
	chunk        = 64 << 10
)

// request is what a client sends. Fields of later versions are passed over.
type request struct {
	Op           string            `json:"op"`
	Env          map[string]string `json:"env"`
	Runner       *string           `json:"runner"`
	RunnerFD     bool              `json:"runner_fd"`
	RunnerPython *string           `json:"runner_python"`
	Argv         []string          `json:"argv"`
	CWD          *string           `json:"cwd"`
	Scratch      bool              `json:"scratch"`
	Detached     bool              `json:"detached"`
	StdinFD      *int              `json:"stdin_fd"`
	StdoutFD     *int              `json:"stdout_fd"`
	StderrFD     *int              `json:"stderr_fd"`
}

// launch is a request that can be carried out.
type launch struct {
	runner   []byte   // source of the runner; nil for a command
	argv     []string // of a command
	cwd      string   // of the client; "": none
	env      map[string]string
	scratch  bool // a runner whose client waits for its exit
	detached bool // a command that outlives its connection

	stdin, stdout, stderr *os.File // nil: none
}

// closeStreams closes the client's streams. It may be called more than once.
func (l *launch) closeStreams() {
	for _, file := range []*os.File{l.stdin, l.stdout, l.stderr} {
		if file != nil {
			_ = file.Close() // fails where it was closed before
		}
	}
}

// receive reads a request, which must be complete within that time. The caller closes the streams of the launch. Whatever happens, no other descriptor stays open.
func receive(conn *net.UnixConn, within time.Duration) (*launch, error) {
	var fds descriptors
	defer func() { fds.close() }()
	if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return nil, err
	}
	line, err := readLine(conn, &fds)
	if err != nil {
		return nil, err
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return nil, err
	}
	var r request
	if err := api.UnmarshalLoose(line, &r); err != nil {
		if known := new(api.Error); errors.As(err, &known) {
			return nil, refused(codeBadRequest, "%s", known.Detail)
		}
		return nil, err
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	return r.launch(fds)
}

// readLine reads up to the first line feed, and adds the descriptors that come with it to fds.
func readLine(conn *net.UnixConn, fds *descriptors) ([]byte, error) {
	var line []byte
	data, rights := make([]byte, chunk), make([]byte, syscall.CmsgSpace(maxFDs*4))
	for total := 0; ; {
		n, rightsLen, flags, _, err := conn.ReadMsgUnix(data, rights)
		if err := fds.add(rights[:max(rightsLen, 0)]); err != nil {
			return nil, err
		}
		total += max(n, 0)
		switch {
		case flags&syscall.MSG_CTRUNC != 0:
			return nil, refused(codeTruncated, "a request may have at most %d descriptors", maxFDs)
		case len(*fds) > maxFDs:
			return nil, refused(codeTooMany, "a request may have at most %d descriptors", maxFDs)
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, refused(codeTimeout, "no complete request came in time")
		case n == 0 && (err == nil || errors.Is(err, io.EOF)):
			return nil, refused(codeIncomplete, "the connection ended before a complete request arrived")
		case err != nil:
			return nil, err
		}
		piece, _, complete := bytes.Cut(data[:n], []byte("\n"))
		if total <= maxLine {
			line = append(line, piece...)
		} else {
			line = nil
		}
		switch {
		case complete && total <= maxLine:
			return line, nil
		case complete || total > maxDiscarded:
			return nil, refused(codeTooLarge, "a request may have at most %d bytes", maxLine)
		}
	}
}

// add takes the descriptors of a message's ancillary data.
func (d *descriptors) add(rights []byte) error {
	messages, err := syscall.ParseSocketControlMessage(rights)
	if err != nil {
		return refused(codeTruncated, "the ancillary data cannot be read: %v", err)
	}
	for _, message := range messages {
		if message.Header.Level != syscall.SOL_SOCKET || message.Header.Type != syscall.SCM_RIGHTS {
			continue
		}
		received, err := syscall.ParseUnixRights(&message)
		if err != nil {
			return refused(codeTruncated, "the descriptors cannot be read: %v", err)
		}
		*d = append(*d, received...)
	}
	return nil
}

// check refuses what the protocol does not allow, and what is not served here.
func (r *request) check() error {
	kinds := 0
	for _, given := range []bool{r.RunnerFD, r.Runner != nil, r.Argv != nil} {
		if given {
			kinds++
		}
	}
	switch {
	case r.Op != "launch":
		return refused(codeBadRequest, "op %.80q is not served; only launch is", r.Op)
	case kinds != 1:
		return refused(codeBadRequest, "a request must have exactly one of runner_fd, runner and argv")
	case r.Runner != nil:
		return refused(codeBadRequest, "a runner that is named by its path is not served; send its descriptor with runner_fd")
	case r.Argv != nil && (len(r.Argv) == 0 || r.Argv[0] == ""):
		return refused(codeBadRequest, "argv must begin with the name of a program")
	case r.Argv != nil && r.RunnerPython != nil:
		return refused(codeBadRequest, "runner_python is for runners only")
	case r.Argv != nil && r.CWD == nil:
		return refused(codeBadRequest, "a command must have a cwd")
	case r.CWD != nil && !path.IsAbs(*r.CWD):
		return refused(codeBadRequest, "cwd must be an absolute path")
	case r.RunnerPython != nil && !path.IsAbs(*r.RunnerPython):
		return refused(codeBadRequest, "runner_python must be an absolute path")
	case r.Scratch && !r.RunnerFD:
		return refused(codeBadRequest, "scratch is for runners only")
	case r.Detached && r.Argv == nil:
		return refused(codeBadRequest, "detached is for commands only")
	case r.Detached && (r.StdinFD != nil || r.StdoutFD != nil || r.StderrFD != nil):
		return refused(codeBadRequest, "a detached command has no standard streams")
	}
	for name := range r.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return refused(codeBadRequest, "%.80q cannot be the name of a variable", name)
		}
	}
	return nil
}

// launch takes the descriptors of a request that was checked.
func (r *request) launch(fds descriptors) (_ *launch, err error) {
	l := &launch{argv: r.Argv, env: r.Env, scratch: r.Scratch, detached: r.Detached}
	defer func() {
		if err != nil {
			l.closeStreams()
		}
	}()
	if r.CWD != nil {
		l.cwd = path.Clean(*r.CWD)
	}
	if r.RunnerFD {
		if l.runner, err = fds.runner(); err != nil {
			return nil, err
		}
	}
	for _, s := range []struct {
		field string
		index *int
		wrong int
		file  **os.File
	}{
		{"stdin_fd", r.StdinFD, syscall.O_WRONLY, &l.stdin},
		{"stdout_fd", r.StdoutFD, syscall.O_RDONLY, &l.stdout},
		{"stderr_fd", r.StderrFD, syscall.O_RDONLY, &l.stderr},
	} {
		if s.index == nil {
			continue
		}
		if *s.file, err = fds.stream(s.field, *s.index, s.wrong); err != nil {
			return nil, err
		}
	}
	if n := fds.left(); n > 0 {
		return nil, refused(codeBadRequest, "a sandbox accepts only the standard streams; other descriptors sent: %d", n)
	}
	return l, nil
}
