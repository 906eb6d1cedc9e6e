package procfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Bits of an entry of /proc/PID/pagemap, see Linux's Documentation/admin-guide/mm/pagemap.rst.
const (
	pagePresent   = 1 << 63
	pageOfFile    = 1 << 61 // or of memory that several processes share on purpose
	pageExclusive = 1 << 56
)

// Pages are consecutive pages of a process, in bytes.
type Pages struct{ Address, Length uint64 }

// OwnPages returns which pages of a process's private memory no other process has: of a process that was forked, those that it has
// written to, and those that it has kept of what the others have written to.
func OwnPages(pid int) ([]Pages, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, Gone(err)
	}
	pagemap, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", pid))
	if err != nil {
		return nil, Gone(err)
	}
	defer pagemap.Close()
	size := uint64(os.Getpagesize())
	buffer := make([]byte, 64<<10)
	var own []Pages
	for line := range strings.Lines(string(maps)) {
		area, rest, _ := strings.Cut(line, " ")
		if !strings.HasPrefix(rest, "rw-p") {
			continue
		}
		from, to, _ := strings.Cut(area, "-")
		begin, err := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		if err := errors.Join(err, err2); err != nil {
			return nil, fmt.Errorf("/proc/%d/maps: %w", pid, err)
		}
		for begin < end {
			part := buffer[:min(uint64(len(buffer)), (end-begin)/size*8)]
			n, err := pagemap.ReadAt(part, int64(begin/size*8))
			if n == 0 || err != nil && !errors.Is(err, io.EOF) {
				return nil, Gone(err)
			}
			for i := 0; i+8 <= n; i += 8 {
				entry := binary.NativeEndian.Uint64(part[i:])
				if entry&pagePresent != 0 && entry&pageOfFile == 0 && entry&pageExclusive != 0 {
					own = addPage(own, begin, size)
				}
				begin += size
			}
		}
	}
	return own, nil
}

// addPage adds the page at an address.
func addPage(to []Pages, address, size uint64) []Pages {
	if len(to) > 0 {
		if last := &to[len(to)-1]; last.Address+last.Length == address {
			last.Length += size
			return to
		}
	}
	return append(to, Pages{address, size})
}
