package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"talaria/kernel/procfs"
)

// From these numbers up, descriptors and sockets of a sandbox count as memory, since they may be pipes and sockets
// with data in them. A pipe has two descriptors, and room for two pages once its user has many.
const (
	manyDescriptors = 256
	manySockets     = 16 // in a network namespace: TCP sockets, which have the largest buffers, hold some 80 MiB by default
	descriptorBytes = 4 << 10
	maxDescriptors  = 4096 // of a process, as limited by talaria_init
)

// tally adds up the memory of a sandbox if no control group does.
type tally struct {
	private     int64 // of the processes
	mapped      int64 // shared memory and files in memory, as far as processes map them
	descriptors int64
}

// add adds a process, without the memory that it shares with a fork server.
func (t *tally) add(pid int, p procfs.Process, inherited int64) {
	t.private += max(0, p.Private-inherited)
	t.mapped += p.Shared
	t.descriptors += descriptors(pid)
}

// addShare adds a process with its share of the pages that it has in common with others since a fork, and without memory that is its
// parent's as well: that of a child between vfork and exec. It takes more time than add, which counts such pages for each process.
func (t *tally) addShare(pid int, p procfs.Process, inherited int64) {
	if procfs.SameMemory(pid, p.Parent) {
		p.Private = 0
	} else if share, err := procfs.PrivateShare(pid); err == nil {
		p.Private = min(p.Private, share+inherited)
	}
	t.add(pid, p, inherited)
}

// total returns the memory that the sandbox uses: that of its processes, of the files in /tmp, /dev/shm and the home
// directory whether they are mapped or not, and of sockets and pipes.
func (s *Sandbox) total(t tally, pids []int) int64 {
	total := t.private + max(t.mapped, s.filesInMemory())
	many := t.descriptors >= manyDescriptors
	if many {
		total += t.descriptors * descriptorBytes
	}
	if many || s.socketsInUse() >= manySockets {
		total += s.socketMemory(pids)
	}
	return total
}

// socketsInUse counts the sockets of the sandbox's network namespace; 0 if it shares the host's.
func (s *Sandbox) socketsInUse() int64 {
	if !s.backend.tier.Contained() {
		return 0
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/sockstat", s.handle.PID))
	if err != nil {
		return 0
	}
	first, _, _ := bytes.Cut(text, []byte("\n"))
	n, _ := strconv.ParseInt(string(bytes.TrimPrefix(first, []byte("sockets: used "))), 10, 64)
	return n
}

// descriptors counts the open descriptors of a process. Before Linux 6.2, which does not tell, any number counts as
// many.
func descriptors(pid int) int64 {
	var st unix.Stat_t
	if unix.Stat(fmt.Sprintf("/proc/%d/fd", pid), &st) != nil {
		return 0
	}
	if st.Size == 0 {
		return manyDescriptors
	}
	return st.Size
}

// filesInMemory returns the size of the files that the writable folders keep in memory.
func (s *Sandbox) filesInMemory() int64 {
	if !s.backend.tier.Contained() {
		return 0
	}
	var used int64
	for _, folder := range writableFolders {
		var st unix.Statfs_t
		if unix.Statfs(fmt.Sprintf("/proc/%d/root%s", s.handle.PID, folder), &st) == nil {
			used += int64(st.Blocks-st.Bfree) * st.Bsize
		}
	}
	return used
}

// socketMemory returns the memory of data in sockets. It is 0 if the system does not tell.
func (s *Sandbox) socketMemory(pids []int) int64 {
	list, own, err := s.socketList(pids)
	if err != nil {
		s.backend.cfg.Log.Debug("look at the sockets of a session", "error", err)
		return 0
	}
	bytes, err := list.bytes(own)
	if err != nil {
		s.backend.cfg.Log.Debug("look at the sockets of a session", "error", err)
	}
	return bytes
}

// socketList returns the list of the sandbox's sockets, and a function that says which of them are its own.
func (s *Sandbox) socketList(pids []int) (*socketList, func(listedSocket) bool, error) {
	s.listing.Lock()
	defer s.listing.Unlock()
	select {
	case <-s.reaped: // so that nothing is opened that nobody closes
		return nil, nil, s.lost()
	default:
	}
	if s.sockets == nil {
		list, err := s.openSocketList()
		if err != nil {
			return nil, nil, err
		}
		s.sockets = list
	}
	switch {
	case s.backend.tier.Contained():
		return s.sockets, func(listedSocket) bool { return true }, nil
	case os.Geteuid() == 0: // each session has its own user
		s.mu.Lock()
		uid := uint32(s.uid)
		s.mu.Unlock()
		return s.sockets, func(l listedSocket) bool { return l.uid == uid }, nil
	}
	inodes := map[uint32]bool{}
	for _, pid := range pids {
		_ = openFiles(pid, func(_ string, st *unix.Stat_t) {
			if st.Mode&unix.S_IFMT == unix.S_IFSOCK {
				inodes[uint32(st.Ino)] = true
			}
		})
	}
	return s.sockets, func(l listedSocket) bool { return inodes[l.inode] }, nil
}

// closeSocketList closes the list of a sandbox that has ended.
func (s *Sandbox) closeSocketList() {
	s.listing.Lock()
	defer s.listing.Unlock()
	if s.sockets != nil {
		s.sockets.close()
	}
}

// openSocketList opens the list for the network namespace that the sandbox is in.
func (s *Sandbox) openSocketList() (*socketList, error) {
	if !s.backend.tier.Contained() {
		return openSocketList(unix.AF_UNIX)
	}
	r, files, err := s.outside(s.backend.ctx, "sockets")
	if err != nil {
		return nil, err
	}
	if r.Op != "sockets" || len(files) != 1 {
		closeAll(files)
		return nil, fmt.Errorf("the answer %q with %d descriptors is invalid", r.Op, len(files))
	}
	return &socketList{file: files[0], families: []uint8{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6}}, nil
}
