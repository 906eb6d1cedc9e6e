package main

import (
	"context"
	"errors"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"talaria/api"
)

// kernelObjects takes all that the operating system gives of things that are limited for the machine as a whole.
var kernelObjects = abuse{
	id: "kernel-objects", what: "a cell that takes all inotify instances, timers and asynchronous I/O contexts",
	harm: &harm{
		metric: metric{what: "how many of the three kinds the machine has used up", unit: "", exact: true},
		begin: func(*owner) (func() (float64, error), error) {
			return func() (float64, error) { return float64(exhausted()), nil }, nil
		},
	},
	pass: inSession(api.SessionRequest{}, `
import ctypes, os
libc = ctypes.CDLL(None)
setup, create = {"x86_64": (206, 222), "aarch64": (0, 107)}[os.uname().machine]
while libc.inotify_init1(0) >= 0: pass
timer = ctypes.c_int()
while libc.syscall(create, 0, None, ctypes.byref(timer)) == 0: pass
for events in (4096, 128, 1):
    context = ctypes.c_ulong()
    while libc.syscall(setup, events, ctypes.byref(context)) == 0: context.value = 0`),
}

// exhausted counts what this process gets nothing of.
func exhausted() (kinds int) {
	fd, err := unix.InotifyInit1(0)
	if err == nil {
		unix.Close(fd)
	} else {
		kinds++
	}
	var timer int32
	if _, _, err := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_REALTIME, 0, uintptr(unsafe.Pointer(&timer))); err == 0 {
		unix.Syscall(unix.SYS_TIMER_DELETE, uintptr(timer), 0, 0)
	} else {
		kinds++
	}
	var aio uintptr
	if _, _, err := unix.Syscall(unix.SYS_IO_SETUP, 1, uintptr(unsafe.Pointer(&aio)), 0); err == 0 {
		unix.Syscall(unix.SYS_IO_DESTROY, aio, 0, 0)
	} else if err != unix.ENOSYS {
		kinds++
	}
	return kinds
}

const (
	fileMemory = `
import os
for fd in globals().get("held", []): os.close(fd)
held = []
for _ in range(8):
    held.append(os.memfd_create("x"))
    for _ in range(180): os.write(held[-1], bytes(1 << 20))`
	segmentMemory = `
import ctypes
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
for segment in globals().get("held", []): libc.shmctl(segment, 0, None)
held = []
for _ in range(25):
    segment = libc.shmget(0, ctypes.c_size_t(48 << 20), 0o1600)
    if segment < 0: raise MemoryError
    held.append(segment)
    address = libc.shmat(segment, None, 0)
    ctypes.memset(address, 1, 48 << 20)
    libc.shmdt(ctypes.c_void_p(address))`
)

// unmappedMemory is memory that no process has mapped, of which two sessions may have 256 MiB each.
var unmappedMemory = abuse{
	id: "unmapped-memory", what: "two sessions of an ordinary user's server that take 2.6 GB which no process has mapped",
	flavour: flavour{ordinary: true},
	harm: &harm{
		metric: metric{what: "memory that the machine lost (the sessions may have 512)", unit: "MiB", p50: 1024},
		begin: func(*owner) (func() (float64, error), error) {
			before, _, err := available()
			return func() (float64, error) {
				now, _, err := available()
				return float64(before-now) / mib, err
			}, err
		},
	},
	pass: func(ctx context.Context, o *owner) error {
		limits := api.SessionRequest{Limits: &api.LimitsRequest{MemoryBytes: new(int64(256 << 20))}}
		files, err := o.session(ctx, "files", limits)
		if err != nil {
			return err
		}
		segments, err := o.session(ctx, "segments", limits)
		if err != nil {
			return err
		}
		var both sync.WaitGroup
		var inFiles, inSegments error
		both.Go(func() { inFiles = o.run(ctx, files, fileMemory) })
		both.Go(func() { inSegments = o.run(ctx, segments, segmentMemory) })
		both.Wait()
		return errors.Join(inFiles, inSegments)
	},
}
