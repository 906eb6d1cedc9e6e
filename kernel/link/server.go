package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"talaria/kernel"
	"talaria/kernel/host"
	"talaria/kernel/record"
)

// ServerConfig says what [Serve] offers. Folder and Host are required; Host keeps its spool in Folder.Spool.
type ServerConfig struct {
	Folder *Folder
	Host   *host.Host
	// Build is the same for hosts that can replace each other; Version is for people. Instance names what the host
	// makes on the machine, for SweepDead after a crash; default: the folder's id.
	Build, Version, Instance string
	Tier                     string        // of isolation; for information
	OrphanTTL                time.Duration // how long it lives without a server; default: DefaultOrphanTTL
	// SweepDead removes what a dead host of that instance, and these sandboxes, left on the machine.
	SweepDead func(ctx context.Context, instance string, handles []kernel.Handle) error
	// Ready is called when servers can connect.
	Ready func()
	// Release is called when no kernel is left, before the host counts as ended.
	Release func() error
	Log     *slog.Logger

	protocol Versions
	drain    time.Duration
	ending   time.Duration
}

// The reasons why a host ends by itself.
var (
	errOrphan  = errors.New("it was without a server for too long")
	errStopped = errors.New("a server or an operator stopped it")
	errUnused  = errors.New("a newer host replaced it, and its last kernel has ended")
)

// closeTime bounds how long ending all kernels may take.
const closeTime = 30 * time.Second

// server is a host that serves.
type server struct {
	cfg     ServerConfig
	log     *slog.Logger
	folder  *Folder
	host    *host.Host
	ctx     context.Context // of all connections
	done    context.Context // ends, with the reason, when the host should end
	end     context.CancelCauseFunc
	serving sync.WaitGroup // the connections
	ending  chan struct{}  // closed, with mu held, when the host begins to end and has kernels

	mu       sync.Mutex // guards the fields below
	conns    map[*conn]struct{}
	controls int
	orphan   *time.Timer
	leases   uint64
	holders  map[record.Key]holder
	starting int
	attached int           // connections of kernels
	quiet    chan struct{} // closed when attached is 0 and the host is closing
	savers   int           // servers that save what they can before the host ends, and are not ready yet
	saved    chan struct{} // closed when savers is 0 and ending is closed
	retired  bool          // it takes no new kernels
	closing  bool
}

// holder is the connection that has attached to a kernel, or last did.
type holder struct {
	lease uint64
	conn  *kernelConn
}

// Serve offers the host to the servers of its state directory until ctx ends, a server tells it to end, none has been
// connected for the TTL, or it is retired and its last kernel is forgotten. Then it lets connected servers save what they
// can, stops all kernels, gives attached servers a moment to acknowledge, and closes the folder, which it removes if nothing
// is left to read in it. The error is nil in all these cases.
func Serve(ctx context.Context, cfg ServerConfig) error {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.OrphanTTL == 0 {
		cfg.OrphanTTL = DefaultOrphanTTL
	}
	if cfg.Instance == "" {
		cfg.Instance = cfg.Folder.ID
	}
	if cfg.protocol == (Versions{}) {
		cfg.protocol = supported
	}
	if cfg.ending == 0 {
		cfg.ending = endingTime
	}
	if cfg.drain == 0 {
		cfg.drain = drainTime
	}
	s := &server{
		cfg: cfg, log: cfg.Log.With("host", cfg.Folder.ID), folder: cfg.Folder, host: cfg.Host,
		conns: map[*conn]struct{}{}, holders: map[record.Key]holder{}, quiet: make(chan struct{}),
		ending: make(chan struct{}), saved: make(chan struct{}),
	}
	connections, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	s.ctx = connections
	s.done, s.end = context.WithCancelCause(ctx)
	defer s.end(nil)

	listener, info, err := s.open()
	if err != nil {
		return errors.Join(fmt.Errorf("open the host's socket: %w", err), cfg.Folder.Close())
	}
	s.host.OnForget(s.check)
	s.orphan = time.AfterFunc(cfg.OrphanTTL, s.orphaned)
	s.serving.Go(func() { s.accept(listener) })
	s.log.Info("the host is ready", "version", cfg.Version, "folder", cfg.Folder.Path)
	if cfg.Ready != nil {
		cfg.Ready()
	}
	<-s.done.Done()
	s.log.Info("the host is shutting down", "reason", context.Cause(s.done))

	s.letGo()
	err = s.stopKernels()
	if cfg.Release != nil {
		err = errors.Join(err, cfg.Release())
	}
	err = errors.Join(err, s.leave(info))
	_ = listener.Close()
	cancel()
	s.closeConns()
	s.serving.Wait()
	return err
}

// open makes the socket and host.json.
func (s *server) open() (*net.UnixListener, Info, error) {
	boot, err := kernel.BootID()
	if err != nil {
		return nil, Info{}, err
	}
	info := Info{
		ID: s.folder.ID, Protocol: s.cfg.protocol, Build: s.cfg.Build, Version: s.cfg.Version, Instance: s.cfg.Instance,
		PID: os.Getpid(), StartTime: startTime(), BootID: boot, StartedAt: time.Now().UTC().Truncate(time.Millisecond),
	}
	listener, err := Listen(filepath.Join(s.folder.Path, socketName))
	if err != nil {
		return nil, info, err
	}
	if err := s.folder.write(info); err != nil {
		return nil, info, errors.Join(err, listener.Close())
	}
	return listener, info, nil
}

// stopKernels stops all kernels and waits for the servers that read their records.
func (s *server) stopKernels() error {
	s.mu.Lock()
	s.closing = true
	s.orphan.Stop()
	s.count(0)
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(s.ctx, closeTime)
	defer cancel()
	err := s.host.Close(ctx)
	wait := time.NewTimer(s.cfg.drain)
	defer wait.Stop()
	select {
	case <-s.quiet:
	case <-wait.C:
		s.log.Info("unacknowledged records are kept for the next server")
	}
	return err
}

// leave gives the folder up, and removes it if nobody needs it.
func (s *server) leave(info Info) error {
	left, err := os.ReadDir(s.folder.Spool())
	if err == nil && len(left) == 0 || errors.Is(err, fs.ErrNotExist) {
		return errors.Join(remove(s.folder.Path), s.folder.Close())
	}
	info.Ended = true
	return errors.Join(err, s.folder.write(info), os.Remove(filepath.Join(s.folder.Path, socketName)), s.folder.Close())
}

// startTime returns when this process started, as in field 22 of its stat, or 0.
func startTime() uint64 {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return 0
	}
	n, _ := strconv.ParseUint(fields[19], 10, 64) // field 3 is the first one after the name
	return n
}

// accept serves connections until the listener is closed.
func (s *server) accept(l *net.UnixListener) {
	for {
		u, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // too many files are open; some will be closed sooner or later
			s.log.Error("accept a server's connection", "error", err)
			pause := time.NewTimer(100 * time.Millisecond)
			select {
			case <-pause.C:
			case <-s.ctx.Done():
				pause.Stop()
			}
			continue
		}
		c := newConn(u)
		c.opening = true
		if s.add(c) {
			s.serving.Go(func() { s.serve(c) })
		}
	}
}

// add registers a connection. It returns false if the host has ended.
func (s *server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		_ = c.Close()
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *server) closeConns() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.conns = nil
}

// serve serves one connection to its end.
func (s *server) serve(c *conn) {
	defer func() {
		c.closeFiles()
		_ = c.Close()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
	if _, err := checkPeer(c.unix); err != nil {
		s.log.Warn("refused a connection", "error", err)
		return
	}
	_ = c.unix.SetReadDeadline(time.Now().Add(helloTime))
	first, err := c.readRequest()
	if err != nil {
		s.log.Debug("a connection without a request", "error", err)
		return
	}
	_ = c.unix.SetReadDeadline(time.Time{})
	c.opening = false
	switch first.Op {
	case opHello:
		s.control(c, first)
	case opStart:
		s.start(c, first)
	case opAttach:
		s.attach(c, first)
	case opRun:
		s.run(c, first)
	default:
		_ = c.answer(first.N, nil, fmt.Errorf("a connection cannot begin with %q", first.Op))
	}
}

// count counts the connections of kernels. The caller holds mu.
func (s *server) count(by int) {
	s.attached += by
	if s.attached == 0 && s.closing && !isClosed(s.quiet) {
		close(s.quiet)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// check ends a retired host once it has nothing left to do.
func (s *server) check() {
	s.mu.Lock()
	unused := s.retired && s.starting == 0
	s.mu.Unlock()
	if !unused {
		return
	}
	if keys, err := s.host.Kernels(s.ctx); err == nil && len(keys) == 0 {
		s.end(errUnused)
	}
}

func (s *server) orphaned() {
	s.mu.Lock()
	alone := s.controls == 0
	s.mu.Unlock()
	if alone {
		s.end(errOrphan)
	}
}

// connected counts the servers that are connected.
func (s *server) connected(by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.controls += by
	switch {
	case s.controls > 0 || s.closing:
		s.orphan.Stop()
	default:
		s.orphan.Reset(s.cfg.OrphanTTL)
	}
}
