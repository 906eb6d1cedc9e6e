package host

import (
	"talaria/kernel"
	"talaria/kernel/record"
)

// How little space is left when something could not be written: for whole blocks, and for the largest piece that ext4
// allocates at once, 8 MiB, and its metadata.
const (
	fullBytes       = 64 << 10
	almostFullBytes = 16 << 20
)

// fullDisk checks whether the workspace is past its limit.
func (w *watcher) fullDisk() *record.LimitHit {
	if w == nil {
		return nil
	}
	w.look()
	w.looking.Lock()
	defer w.looking.Unlock()
	return w.full
}

// usedDisk returns what the workspace uses, in bytes. If nobody measures it regularly, it measures now.
func (w *watcher) usedDisk() int64 {
	if w == nil {
		return 0
	}
	if w.hold != kernel.DiskWatched {
		w.look()
	}
	return w.used.Load()
}

// holdsDisk reports whether the operating system enforces the limit of the workspace.
func (w *watcher) holdsDisk() bool { return w != nil && w.hold != kernel.DiskWatched }

// diskHasRoom reports whether the file system of the workspace has space left.
func (w *watcher) diskHasRoom() bool { return w != nil && w.dir.Free() > 0 }

// refused returns the limit behind ENOSPC, or nil: even if a large piece was refused, the workspace has room for
// smaller ones.
func (w *watcher) refused(limits kernel.Limits) *record.LimitHit {
	if hit := w.fullDisk(); hit != nil || !w.holdsDisk() {
		return hit
	}
	meter, ok := w.sandbox.(kernel.TmpMeter)
	if !ok {
		return nil
	}
	if free, err := meter.TmpFree(); err != nil || free < fullBytes { // then that is where the space ran out
		return nil
	}
	space, err := w.dir.Space()
	if err != nil || space.Free >= almostFullBytes {
		return nil
	}
	bytes, _ := kernel.EnforcedUsage(w.hold, space)
	return &record.LimitHit{Name: "disk_bytes", Value: limits.DiskBytes, Used: bytes}
}

// measureHeld is measure for a workspace whose limit the operating system enforces.
func (w *watcher) measureHeld(limits kernel.Limits) (bytes, inodes int64, hit *record.LimitHit, err error) {
	space, err := w.dir.Space()
	if err != nil {
		return 0, 0, nil, err
	}
	bytes, inodes = kernel.EnforcedUsage(w.hold, space)
	switch {
	case limits.DiskBytes <= 0:
	case space.Free < fullBytes:
		hit = &record.LimitHit{Name: "disk_bytes", Value: limits.DiskBytes, Used: bytes}
	case space.FreeInodes == 0:
		hit = &record.LimitHit{Name: "disk_inodes", Value: inodes, Used: inodes}
	}
	return bytes, inodes, hit, nil
}

// lookAtHeldDisk measures what the workspace uses, and whether it is full. A full one ends nothing, since nothing more
// can be written. The caller holds looking.
func (w *watcher) lookAtHeldDisk(limits kernel.Limits) {
	bytes, _, hit, err := w.measureHeld(limits)
	if err != nil {
		if w.ctx.Err() == nil {
			w.log.Debug("measure the workspace", "error", err)
		}
		return
	}
	w.used.Store(bytes)
	w.full = hit
}
