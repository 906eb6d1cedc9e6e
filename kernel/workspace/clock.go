package workspace

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// exactTimes reports whether each change of a file that was looked at gets a modification time of its own, as on these
// file systems with Linux 6.13 and later. Otherwise the time comes from a clock that ticks every few milliseconds.
func exactTimes(fd int) bool {
	var u unix.Utsname
	var major, minor int
	if unix.Uname(&u) != nil {
		return false
	}
	if n, _ := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor); n != 2 {
		return false
	}
	if major < 6 || major == 6 && minor < 13 {
		return false
	}
	var s unix.Statfs_t
	if unix.Fstatfs(fd, &s) != nil {
		return false
	}
	switch int64(s.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC:
		return true
	}
	return false
}

// waitForTick returns when the file system's clock has ticked since the files changed, so that a later change gets
// another time. It does not wait for a time in the future, which does not come from this clock.
func waitForTick(ctx context.Context, changes []Change) error {
	var tick unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_REALTIME_COARSE, &tick); err != nil {
		return fmt.Errorf("read the clock: %w", err)
	}
	for {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now); err != nil {
			return fmt.Errorf("read the clock: %w", err)
		}
		exact := time.Now().UnixNano() // the coarse clock may lag by more than a tick on a busy machine
		fresh := slices.ContainsFunc(changes, func(c Change) bool {
			t := c.Entry.ModTime.UnixNano()
			return c.Kind != Deleted && t >= now.Nano() && t <= exact
		})
		if !fresh {
			return nil
		}
		// A busy machine ticks late, so one wait may not be enough.
		timer := time.NewTimer(time.Duration(tick.Nano()))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}
