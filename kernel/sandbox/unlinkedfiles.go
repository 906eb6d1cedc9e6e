package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"talaria/kernel/procfs"
)

const (
	// largeFile is the size from which a file is remembered, and maxLargeFiles how many are.
	largeFile     = 1 << 20
	maxLargeFiles = 4096

	maxNesting  = 8    // of sockets inside sockets; the kernel allows 4
	maxMessages = 1024 // of one socket; its buffer has room for fewer
	maxRights   = 253  // descriptors per message
)

// largeFiles has the sizes, by inode, of files that were open at the last look. An ordinary user cannot ask for the
// size of a file that is only mapped. It is safe for concurrent use.
type largeFiles struct {
	mu    sync.Mutex // guards sizes
	sizes map[uint64]int64
}

func (l *largeFiles) see(st *unix.Stat_t) {
	l.mu.Lock()
	defer l.mu.Unlock()
	size := st.Blocks * 512
	if _, known := l.sizes[st.Ino]; size < largeFile && !known {
		return
	}
	if l.sizes == nil {
		l.sizes = map[uint64]int64{}
	}
	for inode := range l.sizes {
		if len(l.sizes) < maxLargeFiles {
			break
		}
		delete(l.sizes, inode)
	}
	l.sizes[st.Ino] = size
}

func (l *largeFiles) size(inode uint64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sizes[inode]
}

func (l *largeFiles) any() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.sizes) > 0
}

// nameless adds up the files on a device that processes keep without a name.
type nameless struct {
	device  uint64
	large   *largeFiles
	files   map[uint64]int64 // bytes by inode
	sockets map[uint64]bool  // already looked into, by inode
}

func (n *nameless) visit(st *unix.Stat_t) {
	if uint64(st.Dev) != n.device || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return
	}
	n.large.see(st)
	if st.Nlink == 0 {
		n.files[st.Ino] = st.Blocks * 512
	}
}

func (n *nameless) sum() (bytes, inodes int64) {
	for _, size := range n.files {
		bytes += size
	}
	return bytes, int64(len(n.files))
}

// Unlinked returns the size of the regular files on that device that have no name any more: those that are open
// inside, in transit through a socket, or mapped. For a file that was never seen open, an ordinary user counts as far
// as its mappings reach. Code inside can make the process that counts for pid 1 take too long, which is an error.
func (s *Sandbox) Unlinked(ctx context.Context, device uint64) (bytes, inodes int64, err error) {
	pids, err := s.pids()
	if err != nil {
		return 0, 0, err
	}
	pids = slices.DeleteFunc(pids, func(pid int) bool { return pid == s.handle.PID })
	n := &nameless{device: device, large: &s.large, files: map[uint64]int64{}, sockets: map[uint64]bool{}}
	hidden := n.look(ctx, pids)
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	bytes, inodes = n.sum()
	if hidden != nil && s.asksPID1() {
		r, err := s.call(ctx, "unlinked", unlinkedRequest{PIDs: append([]int{}, pids...), Device: device})
		if err != nil {
			return 0, 0, err
		}
		bytes, inodes, hidden = max(bytes, r.Bytes), max(inodes, r.Inodes), nil // neither sees all
		if r.Hidden > 0 {
			hidden = fmt.Errorf("%d processes cannot be looked into", r.Hidden)
		}
	}
	if hidden != nil {
		s.backend.cfg.Log.Debug("look for deleted files that are open", "error", hidden)
	}
	return bytes, inodes, nil
}

func (n *nameless) look(ctx context.Context, pids []int) error {
	var hidden error
	for _, pid := range pids {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := n.lookAtOpen(pid); err != nil && !errors.Is(err, fs.ErrNotExist) {
			hidden = err
		}
	}
	if os.Geteuid() != 0 && !n.large.any() {
		return hidden
	}
	for _, pid := range pids {
		if err := n.lookAtMapped(pid); err != nil && !errors.Is(err, fs.ErrNotExist) {
			hidden = err
		}
	}
	return hidden
}

func (n *nameless) lookAtOpen(pid int) error {
	var hidden error
	err := openFiles(pid, func(name string, st *unix.Stat_t) {
		n.visit(st)
		if st.Mode&unix.S_IFMT != unix.S_IFSOCK || n.sockets[st.Ino] {
			return
		}
		n.sockets[st.Ino] = true
		if carriesDescriptors(pid, name) {
			hidden = errors.Join(hidden, n.lookInto(pid, name))
		}
	})
	return errors.Join(err, hidden)
}

// carriesDescriptors reports whether the buffer of a socket holds descriptors, or may hold some.
func carriesDescriptors(pid int, name string) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, name))
	_, count, ok := bytes.Cut(text, []byte("scm_fds:"))
	return err != nil || ok && !bytes.HasPrefix(bytes.TrimSpace(count), []byte("0"))
}

// lookInto visits the files in transit through a socket of a process.
func (n *nameless) lookInto(pid int, name string) error {
	number, err := strconv.Atoi(name)
	if err != nil {
		return err
	}
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return procfs.Gone(os.NewSyscallError("pidfd_open", err))
	}
	defer unix.Close(process)
	socket, err := unix.PidfdGetfd(process, number, 0)
	if errors.Is(err, unix.EBADF) {
		return nil // it was closed meanwhile
	}
	if err != nil {
		return procfs.Gone(os.NewSyscallError("pidfd_getfd", err))
	}
	n.peek(socket, 0)
	go unix.Close(socket) // see closeDuplicate
	return nil
}

// peek visits what a socket would deliver, and leaves it there.
func (n *nameless) peek(socket, depth int) {
	domain, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil || domain != unix.AF_UNIX {
		return
	}
	before, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PEEK_OFF)
	if depth > maxNesting || err != nil || unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PEEK_OFF, 0) != nil {
		return
	}
	defer unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PEEK_OFF, before)
	data, rights := make([]byte, 64<<10), make([]byte, unix.CmsgSpace(maxRights*4))
	for range maxMessages {
		_, size, _, _, err := unix.Recvmsg(socket, data, rights, unix.MSG_PEEK|unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		if err != nil {
			return
		}
		messages, _ := unix.ParseSocketControlMessage(rights[:size])
		for _, m := range messages {
			fds, _ := unix.ParseUnixRights(&m)
			for _, fd := range fds {
				n.lookAtReceived(fd, depth)
			}
		}
	}
}

// lookAtReceived takes ownership of the descriptor.
func (n *nameless) lookAtReceived(fd, depth int) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		_ = unix.Close(fd)
		return
	}
	defer closeDuplicate(fd, &st)
	n.visit(&st)
	if st.Mode&unix.S_IFMT == unix.S_IFSOCK && !n.sockets[st.Ino] {
		n.sockets[st.Ino] = true
		n.peek(fd, depth+1)
	}
}

// lookAtMapped adds the nameless files that a process has mapped.
func (n *nameless) lookAtMapped(pid int) error {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return procfs.Gone(err)
	}
	for line := range bytes.Lines(maps) {
		if !bytes.HasSuffix(line, []byte(" (deleted)\n")) {
			continue
		}
		m, err := readMapping(string(line))
		if err != nil || m.device != n.device {
			continue
		}
		var st unix.Stat_t
		if unix.Stat(fmt.Sprintf("/proc/%d/map_files/%s", pid, m.name), &st) == nil {
			n.visit(&st)
			continue
		}
		n.files[m.inode] = max(n.files[m.inode], n.large.size(m.inode), m.end)
	}
	return nil
}

// mapping is a line of /proc/PID/maps.
type mapping struct {
	name   string // in map_files
	end    int64  // of the mapping, as an offset in the file
	device uint64
	inode  uint64
}

func readMapping(line string) (mapping, error) {
	fields := strings.Fields(line)
	if len(fields) < 5 {
		return mapping{}, fmt.Errorf("the mapping %q is not understood", line)
	}
	var start, end, offset uint64
	var major, minor uint32
	m := mapping{name: fields[0]}
	_, err := fmt.Sscanf(fields[0]+" "+fields[2]+" "+fields[3]+" "+fields[4], "%x-%x %x %x:%x %d", &start, &end, &offset,
		&major, &minor, &m.inode)
	m.end, m.device = int64(offset+end-start), unix.Mkdev(major, minor)
	return m, err
}
