package sandbox

import (
	"fmt"
	"os"
	"strconv"

	"talaria/kernel"
	"talaria/kernel/cgroup"
)

// Layers names the isolation in force. It leaves out limits that are not set.
func (s *Sandbox) Layers() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.sealed {
		return nil
	}
	tier := s.backend.tier
	layers := append(tier.Layers(), "no capabilities", "no new privileges")
	layers = append(layers, s.backend.confinement.layers()...)
	if os.Geteuid() == 0 {
		layers = append(layers, fmt.Sprintf("user: %d, this session's own", s.uid))
	} else {
		layers = append(layers, fmt.Sprintf("user: %d, the server's own", s.uid))
	}
	limit := func(what, controller, value, without string) {
		if h, _ := s.group.Holder(controller); h != nil {
			layers = append(layers, what+": "+h.Version()+", "+value)
		} else {
			layers = append(layers, what+": "+without)
		}
	}
	if l := s.limits.MemoryBytes; l > 0 {
		value := mebibytes(l)
		if h, dir := s.group.Holder(cgroup.Memory); h != nil && cgroup.HoldsSockets(dir) {
			value += ", and " + mebibytes(l/cgroup.SocketShare) + " of buffers of internet sockets"
		}
		limit("memory", cgroup.Memory, value, "RLIMIT_DATA, "+mebibytes(dataLimit(l))+" for each process; "+
			"all together watched, "+mebibytes(l)+", may overshoot; unmapped parts of shared memory are not seen")
	}
	if l := s.limits.PIDs; l > 0 {
		_, words := tier.Processes(l)
		limit("processes", cgroup.PIDs, strconv.FormatInt(l, 10), words)
	}
	if l := s.limits.CPUs; l > 0 {
		limit("cpu", cgroup.CPU, strconv.FormatFloat(l, 'f', -1, 64), "not limited (no control group)")
	}
	if s.limits.DiskBytes > 0 {
		layers = append(layers, kernel.DiskLayer(s.disk, s.limits, s.imageFiles))
	}
	if s.scratch != "" {
		layers = append(layers, "temporary files: in the session's own directory, counted with the workspace")
	} else if l := s.limits.TmpBytes; l > 0 {
		layers = append(layers, "temporary files: "+mebibytes(l)+" for each of /tmp, /dev/shm and home")
	}
	for _, m := range s.seen {
		if m.Writable {
			layers = append(layers, "mount: "+m.Target+", writable, no set-uid programs or devices")
		} else {
			layers = append(layers, "mount: "+m.Target+", read-only, no set-uid programs or devices")
		}
	}
	return layers
}

func mebibytes(bytes int64) string { return strconv.FormatInt(bytes>>20, 10) + " MiB" }
