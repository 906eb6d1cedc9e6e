package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxReply is the size of the largest packet that pid 1 sends.
const maxReply = 64 << 10

// request is a request to pid 1. Body is one of the structs below, whose counterparts are in talaria_init.
type request struct {
	Op   string `json:"op"`
	ID   int64  `json:"id"`
	Body any    `json:"body"`
}

type parkRequest struct {
	Sessions string   `json:"sessions"`
	Library  string   `json:"library"`
	Cache    string   `json:"cache"`
	Prefixes []string `json:"prefixes"`
	Roots    []string `json:"roots"` // of mounts
	Engine   string   `json:"engine"`
	Tier     string   `json:"tier"`
	Scratch  string   `json:"scratch"` // empty if there is a tmpfs
}

type serveRequest struct {
	Modules []string `json:"modules"`
}

// pagesRequest has pairs of an address and a length, eight bytes each, for pid 1 and for the interpreter.
type pagesRequest struct {
	Init        []byte `json:"init"`
	Interpreter []byte `json:"interpreter"`
}

type sealRequest struct {
	UID         int                `json:"uid"`
	Killer      int                `json:"killer"` // the user id that what kills the processes of UID has
	Workspace   directory          `json:"workspace"`
	Packages    directory          `json:"packages"`
	Scratch     *directory         `json:"scratch"` // nil if there is a tmpfs
	Mounts      []mount            `json:"mounts"`
	Hostname    string             `json:"hostname"`
	Environment sealEnvironment    `json:"environment"`
	Limits      processLimits      `json:"limits"`
	Confinement confinementRequest `json:"confinement"`
}

// confinementRequest carries programs in base64; a field is empty for a layer that is not wanted.
type confinementRequest struct {
	Landlock int    `json:"landlock"`
	Calls    string `json:"calls"`
	Modes    string `json:"modes"` // the filter that hands changes of modes to pid 1
	// Writable are the mounts that may be written to, in addition to those that every sandbox has.
	Writable []string `json:"writable"`
}

// directory lies at Path beneath the directory of all sessions; if Path is "", it is a mount that comes with the request.
type directory struct {
	Path   string `json:"path"`
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
}

type sealEnvironment struct {
	Python  string            `json:"python"`
	TZ      string            `json:"tz"`
	Threads int               `json:"threads"`
	Session map[string]string `json:"session"`
}

type processLimits struct {
	Data      int64  `json:"data"`
	DataHard  bool   `json:"data_hard"`
	FileSize  int64  `json:"file_size"`
	Processes int64  `json:"processes"`
	Tmp       int64  `json:"tmp"`
	Final     string `json:"final"`
}

type startRequest struct {
	Args        []string          `json:"args"`
	Script      string            `json:"script"`
	Environment map[string]string `json:"environment"`
	Directory   string            `json:"directory"`
	Terminal    bool              `json:"terminal"` // the descriptors are those of a terminal
	Group       bool              `json:"group"`
	Beside      bool              `json:"beside"`
}

// adoptRequest names a process that pid 1 has inherited, by its pid inside.
type adoptRequest struct {
	PID int `json:"pid"`
}

// wakeRequest names two processes, by their ids. Spares says that the first one waits and does not end.
type wakeRequest struct {
	Stops  int64 `json:"stops"`
	Wakes  int64 `json:"wakes"`
	Spares bool  `json:"spares"`
}

// saveRequest names a copy of the interpreter, by its id.
type saveRequest struct {
	Process int64 `json:"process"`
}

type signalRequest struct {
	Process int64 `json:"process"`
	Signal  int   `json:"signal"`
	Group   bool  `json:"group"`
}

// softRequest sets the soft limits of processes, -1 meaning none.
type softRequest struct {
	PIDs     []int `json:"pids"`
	Data     int64 `json:"data"`
	FileSize int64 `json:"file_size"`
}

type unlinkedRequest struct {
	PIDs   []int  `json:"pids"`
	Device uint64 `json:"device"`
}

type limitsRequest struct {
	Limits processLimits `json:"limits"`
}

// reply is a message from pid 1: "done", "started" or "failed" answers a request; "exited" comes unasked; "hello"
// comes first of all, if it was forked; and "ended" last of all, when the host has stopped asking and nothing inside
// is left. A fork server sends "importing" and "skipped" for each module, and "ready".
type reply struct {
	Op     string `json:"op"`
	ID     int64  `json:"id"`
	Name   string `json:"name"`
	Error  string `json:"error"`
	Step   string `json:"step"`
	Errno  int    `json:"errno"`
	PID    int    `json:"pid"`
	Code   int    `json:"code"`
	Signal int    `json:"signal"`
	CPU    int64  `json:"cpu_us"` // of a process that has ended, and the children that it waited for
	Peak   int64  `json:"peak"`   // the same
	Bytes  int64  `json:"bytes"`
	Inodes int64  `json:"inodes"`
	Hidden int64  `json:"hidden"` // processes that cannot be looked into
}

// stepError is a failure inside, with the step of talaria_init and the error number if there is one.
type stepError struct {
	message string
	step    string
	errno   syscall.Errno
}

func (e *stepError) Error() string { return e.message }

func (e *stepError) Unwrap() error {
	if e.errno == 0 {
		return nil
	}
	return e.errno
}

// socketPair makes the packet socket: the host's end and the one for pid 1.
func socketPair() (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make socket pair: %w", err)
	}
	inside := os.NewFile(uintptr(fds[1]), "pid1")
	host, err := unixConn(fds[0], "pid1")
	if err != nil {
		inside.Close()
		return nil, nil, err
	}
	return host, inside, nil
}

// unixConn takes ownership of a socket.
func unixConn(fd int, name string) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("use socket: %w", err)
	}
	return conn.(*net.UnixConn), nil
}

// send writes one packet, with descriptors for the other side to own.
func send(conn *net.UnixConn, r request, files ...*os.File) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // markup would take up to six times as much
	if err := encoder.Encode(r); err != nil {
		return err
	}
	packet := bytes.TrimSpace(text.Bytes())
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	_, _, err := conn.WriteMsgUnix(packet, rights, nil)
	if errors.Is(err, unix.EMSGSIZE) {
		return fmt.Errorf("%d bytes are more than a request can have; use fewer or shorter environment variables",
			len(packet))
	}
	return err
}

// receive reads one packet. It leaves no room for descriptors, so none can arrive.
func receive(conn *net.UnixConn, buffer []byte) (reply, error) {
	n, err := conn.Read(buffer)
	if err != nil {
		return reply{}, err
	}
	var r reply
	if err := json.Unmarshal(buffer[:n], &r); err != nil {
		return reply{}, fmt.Errorf("packet of pid 1: %w", err)
	}
	return r, nil
}
