package kernel

import (
	"golang.org/x/sys/unix"
)

// How little room there is where something could not be written: for whole blocks, and for the largest piece that ext4
// takes in one, 8 MiB, and what belongs to it.
const (
	fullBytes       = 64 << 10
	almostFullBytes = 16 << 20
)

// refused is the limit behind ENOSPC, or nil: where a large piece was refused, the workspace has room for smaller ones.
func (k *interpreter) refused(limits Limits) *LimitHit {
	if hit := k.fullDisk(limits); hit != nil || k.watch == nil || k.watch.hold == DiskWatched {
		return hit
	}
	meter, ok := k.sandbox.(TmpMeter)
	if !ok {
		return nil
	}
	if free, err := meter.TmpFree(); err != nil || free < fullBytes { // then it was there
		return nil
	}
	space, err := k.watch.dir.Space()
	if err != nil || space.Free >= almostFullBytes {
		return nil
	}
	bytes, _ := HeldUsage(k.watch.hold, space)
	return &LimitHit{Name: "disk_bytes", Value: limits.DiskBytes, Used: bytes}
}

// endedByFullDisk is the limit of a kernel that wrote to a mapped file for which the workspace has no room, which the
// operating system answers with SIGBUS; else nil.
func (k *interpreter) endedByFullDisk() *LimitHit {
	select {
	case <-k.process.Done():
	default:
		return nil
	}
	if k.watch == nil || k.watch.hold == DiskWatched || k.process.Exit().Signal != unix.SIGBUS {
		return nil
	}
	return k.fullDisk(k.limitsNow())
}

// measureHeld is measure where the operating system holds the workspace.
func (w *watcher) measureHeld(limits Limits) (bytes, inodes int64, hit *LimitHit, err error) {
	space, err := w.dir.Space()
	if err != nil {
		return 0, 0, nil, err
	}
	bytes, inodes = HeldUsage(w.hold, space)
	switch {
	case limits.DiskBytes <= 0:
	case space.Free < fullBytes:
		hit = &LimitHit{Name: "disk_bytes", Value: limits.DiskBytes, Used: bytes}
	case space.FreeInodes == 0:
		hit = &LimitHit{Name: "disk_inodes", Value: inodes, Used: inodes}
	}
	return bytes, inodes, hit, nil
}

// lookAtHeldDisk finds out what the workspace takes, and whether it is full: that ends nothing, since nothing more can be
// written. The caller holds looking.
func (w *watcher) lookAtHeldDisk(limits Limits) {
	bytes, _, hit, err := w.measureHeld(limits)
	if err != nil {
		if w.ctx.Err() == nil {
			w.k.log.Debug("measure the workspace", "error", err)
		}
		return
	}
	w.used.Store(bytes)
	w.full = hit
}
