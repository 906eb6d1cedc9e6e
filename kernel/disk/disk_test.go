package disk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"talaria/kernel"
	"talaria/kernel/disk"
	"talaria/kernel/workspace"
)

const (
	mib = 1 << 20
	uid = 1900000200
)

// needs skips a test where this machine cannot have workspaces in images, and says why.
func needs(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("images take root")
	}
	findings, ok := disk.Probe(context.Background(), t.TempDir(), disk.Image, mib)
	if !ok {
		t.Skipf("this machine cannot hold a workspace in an image: %+v", findings)
	}
}

func open(t testing.TB, cfg disk.Config) *disk.Store {
	t.Helper()
	s, err := disk.Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func images(t testing.TB, limit int64) (*disk.Store, string) {
	t.Helper()
	needs(t)
	dir := t.TempDir()
	return open(t, disk.Config{Root: dir, Mode: disk.Image, LimitBytes: limit, MaxBytes: 1 << 30, Ready: 1}), dir
}

func create(t testing.TB, s *disk.Store, name string, limit int64) *disk.Workspace {
	t.Helper()
	w, err := s.Create(context.Background(), name, uid, limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func put(w *disk.Workspace, name string, size int64) error {
	_, _, err := w.Write(context.Background(), name, bytes.NewReader(make([]byte, size)), size)
	return err
}

func usage(t *testing.T, w *disk.Workspace) (bytes, inodes int64) {
	t.Helper()
	bytes, inodes, err := w.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return bytes, inodes
}

func TestAnImageTakesItsLimitAndNotABlockMore(t *testing.T) {
	for _, limit := range []int64{8 * mib, 32 * mib, 100 * mib} {
		s, _ := images(t, 8*mib) // so that one is ready and the others are not
		w := create(t, s, "s", limit)
		if w.Held() != kernel.DiskImage {
			t.Fatalf("it is held by %q", w.Held())
		}
		if used, files := usage(t, w); used != 0 || files != 0 {
			t.Errorf("an empty workspace takes %d bytes and %d files", used, files)
		}
		if err := put(w, "most", limit-mib); err != nil {
			t.Fatal(err)
		}
		if err := put(w, "too much", 2*mib); !errors.Is(err, workspace.ErrNoSpace) {
			t.Errorf("past the limit of %d: %v", limit, err)
		}
		n := 0
		for ; ; n++ {
			if err := put(w, fmt.Sprint(n), 4096); errors.Is(err, workspace.ErrNoSpace) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		used, _ := usage(t, w)
		if used > limit || used < limit-64<<10 {
			t.Errorf("the limit is %d, and %d are used", limit, used)
		}
		if err := w.Remove(t.Context(), "most"); err != nil {
			t.Fatal(err)
		}
		if err := put(w, "again", mib); err != nil {
			t.Errorf("with room again: %v", err)
		}
	}
}

func TestAnImageHasAsManyFilesAsItsLimitAllows(t *testing.T) {
	s, _ := images(t, 16*mib)
	w := create(t, s, "s", 16*mib)
	n := 0
	for ; n <= 4096; n++ {
		if err := put(w, fmt.Sprint(n), 0); errors.Is(err, workspace.ErrNoSpace) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if n > 4096 || n < 4080 {
		t.Errorf("%d files were made, the limit is 4096", n)
	}
	if _, files := usage(t, w); files != int64(n) {
		t.Errorf("%d files were made, and %d are counted", n, files)
	}
}

func TestTheLeastAndTheMostThatALimitCanBe(t *testing.T) {
	s, dir := images(t, 8*mib)
	least := create(t, s, "least", 4096)
	if err := put(least, "a", 4096); err != nil {
		t.Error(err)
	}
	if err := put(least, "b", 1); !errors.Is(err, workspace.ErrNoSpace) {
		t.Errorf("past one block: %v", err)
	}
	const most = 64 << 30
	space, err := create(t, s, "most", most).Space()
	if err != nil || space.Free != most || space.FreeInodes > most/4096 || space.FreeInodes < most/4096*97/100 {
		t.Errorf("of 64 GiB there is %+v (%v)", space, err)
	}
	if got := onDisk(t, filepath.Join(dir, "most", "workspace.ext4")); got > 8*mib {
		t.Errorf("an empty image takes %d", got)
	}
	// A limit whose number of files does not divide evenly.
	space, err = create(t, s, "odd", 33*mib+4096).Space()
	if err != nil || space.Free != 33*mib+4096 || space.FreeInodes > 33*mib/4096+1 || space.FreeInodes < 33*mib/4096*97/100 {
		t.Errorf("of 33 MiB there is %+v (%v)", space, err)
	}
}

func TestALimitCanBeRaisedToTheMost(t *testing.T) {
	needs(t)
	const most = 64 << 30
	s := open(t, disk.Config{Root: t.TempDir(), Mode: disk.Image, LimitBytes: 1 << 30, MaxBytes: most, Ready: 1})
	for i, limit := range []int64{48 * mib, 100*mib + 4096, 1 << 30, 10 << 30, 63 << 30, most} {
		w := create(t, s, fmt.Sprint("s", i), limit)
		if space, err := w.Space(); err != nil || space.FreeInodes > limit/4096 || space.FreeInodes < limit/4096*99/100 {
			t.Errorf("created with %d bytes there is %+v (%v)", limit, space, err)
		}
		if err := w.SetLimit(most); err != nil {
			t.Errorf("created with %d bytes: %v", limit, err)
			continue
		}
		if space, err := w.Space(); err != nil || space.Free != most {
			t.Errorf("created with %d bytes, and raised, there is %+v (%v)", limit, space, err)
		}
	}
}

func TestALimitChangesAtOnceBothWays(t *testing.T) {
	s, _ := images(t, 8*mib)
	w := create(t, s, "s", 8*mib)
	if err := put(w, "a", 7*mib); err != nil {
		t.Fatal(err)
	}
	if err := put(w, "b", 7*mib); !errors.Is(err, workspace.ErrNoSpace) {
		t.Fatal(err)
	}
	if err := w.SetLimit(512 * mib); err != nil {
		t.Fatal(err)
	}
	if err := put(w, "b", 300*mib); err != nil {
		t.Fatal(err)
	}
	if err := w.SetLimit(64 * mib); err != nil {
		t.Fatal(err)
	}
	if err := put(w, "c", 1); !errors.Is(err, workspace.ErrNoSpace) {
		t.Errorf("below what is used: %v", err)
	}
	if err := w.SetLimit(1 << 50); !errors.Is(err, disk.ErrCapacity) {
		t.Errorf("past all that it can have: %v", err)
	}
}

// A server that is killed closes the files it has open and does nothing more. So does this test.
func TestTheNextServerFindsAnImageAsItIsLeftWhetherItIsInUseOrNot(t *testing.T) {
	s, dir := images(t, 8*mib)
	w := create(t, s, "s", 8*mib)
	if err := put(w, "kept", mib); err != nil {
		t.Fatal(err)
	}
	root, release, err := w.Hold()
	if err != nil {
		t.Fatal(err)
	}
	kernels, err := disk.Clone(root) // as a sandbox has them
	if err != nil {
		t.Fatal(err)
	}
	release()
	if err := errors.Join(w.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	for _, inUse := range []bool{true, false} {
		if n := len(attached(dir)); inUse && n != 1 {
			t.Fatalf("%d images are attached", n)
		}
		next := open(t, disk.Config{Root: dir, Mode: disk.Image, LimitBytes: 8 * mib, MaxBytes: 1 << 30})
		found, err := next.Load("s", uid, 8*mib)
		if err != nil {
			t.Fatal(err)
		}
		if err := put(found, fmt.Sprint("new", inUse), 2*mib); err != nil {
			t.Fatal(err)
		}
		if err := put(found, "more", 8*mib); !errors.Is(err, workspace.ErrNoSpace) {
			t.Errorf("past the limit: %v", err)
		}
		e, err := found.Stat("kept")
		if err != nil || e.Size != mib {
			t.Errorf("in use %v: what was there is %+v (%v)", inUse, e, err)
		}
		if inUse { // it is one file system: the mounts see each other's changes
			var st unix.Stat_t
			if err := unix.Fstatat(int(kernels.Fd()), "newtrue", &st, 0); err != nil || st.Uid != uid {
				t.Errorf("the sandbox sees %+v (%v)", st, err)
			}
		}
		if err := found.Close(); err != nil {
			t.Fatal(err)
		}
		if inUse {
			kernels.Close()
		}
	}
	if left := attached(dir); len(left) > 0 {
		t.Errorf("still attached: %v", left)
	}
}

func TestADeletedWorkspaceLeavesNothing(t *testing.T) {
	s, dir := images(t, 64*mib)
	w := create(t, s, "s", 64*mib)
	if err := put(w, "a", 60*mib); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Discard(), s.Delete(t.Context(), "s"), s.Close()); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 0 || len(attached(dir)) != 0 {
		t.Errorf("left: %v %v (%v)", entries, attached(dir), err)
	}
}

func TestWhatIsFreedGoesBackToTheDisk(t *testing.T) {
	s, dir := images(t, 64*mib)
	w := create(t, s, "s", 64*mib)
	if err := put(w, "a", 48*mib); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s", "workspace.ext4")
	if got := onDisk(t, path); got < 48*mib {
		t.Fatalf("with 48 MiB in it the image takes %d", got)
	}
	if err := errors.Join(w.Remove(t.Context(), "a"), w.Close()); err != nil {
		t.Fatal(err)
	}
	if got := onDisk(t, path); got > 8*mib {
		t.Errorf("emptied, the image takes %d", got)
	}
}

func onDisk(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Blocks * 512
}

func TestAWorkspaceThatIsADirectoryStaysOne(t *testing.T) {
	s, dir := images(t, 8*mib)
	old, err := workspace.Create(dir, "old", uid)
	if err != nil {
		t.Fatal(err)
	}
	old.Close()
	w, err := s.Load("old", uid, 8*mib)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := put(w, "a", 100); err != nil || w.Held() != kernel.DiskWatched {
		t.Errorf("it is held by %q (%v)", w.Held(), err)
	}
	if used, files := usage(t, w); used != 4096 || files != 1 {
		t.Errorf("it takes %d bytes and %d files", used, files)
	}
}

func TestAModeThatCannotBeHadIsRefusedAndAutoDoesWithout(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if os.Geteuid() != 0 {
		if _, err := disk.Open(t.Context(), disk.Config{Root: dir, Mode: disk.Image}); err == nil {
			t.Error("an ordinary user has images")
		}
	}
	if _, err := disk.Open(t.Context(), disk.Config{Root: dir, Mode: disk.Image, NoMounts: true}); err == nil {
		t.Error("sandboxes without mounts have images")
	}
	if _, err := disk.Open(t.Context(), disk.Config{Root: "/proc/self", Mode: disk.Quota}); err == nil ||
		!strings.Contains(err.Error(), "quota is not available") {
		t.Errorf("quota where there is none: %v", err)
	}
	s, err := disk.Open(t.Context(), disk.Config{Root: dir, Mode: disk.Watched})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w := create(t, s, "s", mib)
	if w.Held() != kernel.DiskWatched {
		t.Errorf("it is held by %q", w.Held())
	}
	if _, err := os.Stat(filepath.Join(dir, ".images")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory for images is left (%v)", err)
	}
}

func BenchmarkCreate(b *testing.B) {
	for _, kind := range []struct {
		name  string
		limit int64
	}{{"ready", 2048 * mib}, {"made", 1024 * mib}} {
		b.Run(kind.name, func(b *testing.B) {
			needs(b)
			dir := b.TempDir()
			s := open(b, disk.Config{Root: dir, Mode: disk.Image, LimitBytes: 2048 * mib, MaxBytes: 64 << 30, Ready: 1})
			for n := 0; b.Loop(); n++ {
				w, err := s.Create(context.Background(), fmt.Sprint(n), uid, kind.limit)
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := errors.Join(w.Discard(), s.Delete(context.Background(), fmt.Sprint(n))); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

// The numbers of loop devices are used again, by other programs too.
func TestAnImageIsNotLookedForOnADeviceThatAnotherProgramTook(t *testing.T) {
	s, dir := images(t, 8*mib)
	w := create(t, s, "s", 8*mib)
	if err := errors.Join(put(w, "kept", mib), w.Close()); err != nil {
		t.Fatal(err)
	}
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	for range 4 { // one of them is the number that the image had
		number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			t.Fatal(err)
		}
		device, err := os.OpenFile(fmt.Sprint("/dev/loop", number), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer device.Close()
		other, err := os.CreateTemp(dir, "other")
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		if err := other.Truncate(mib); err != nil {
			t.Fatal(err)
		}
		config := unix.LoopConfig{Fd: uint32(other.Fd())}
		config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR
		if err := unix.IoctlLoopConfigure(int(device.Fd()), &config); err != nil && !errors.Is(err, unix.EBUSY) {
			t.Fatal(err)
		}
	}
	first, err := s.Load("s", uid, 8*mib)
	if err != nil {
		t.Fatal(err)
	}
	root, release, err := first.Hold()
	if err != nil {
		t.Fatal(err)
	}
	kernels, err := disk.Clone(root) // keeps the device
	if err != nil {
		t.Fatal(err)
	}
	defer kernels.Close()
	release()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		again, err := s.Load("s", uid, 8*mib)
		if err != nil {
			t.Fatal(err)
		}
		if e, err := again.Stat("kept"); err != nil || e.Size != mib {
			t.Errorf("the file is %+v (%v)", e, err)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func BenchmarkOpenAmongManyImages(b *testing.B) {
	s, _ := images(b, 8*mib)
	var held []func()
	for i := range 200 {
		w := create(b, s, fmt.Sprint("s", i), 8*mib)
		root, release, err := w.Hold()
		if err != nil {
			b.Fatal(err)
		}
		kernels, err := disk.Clone(root)
		if err != nil {
			b.Fatal(err)
		}
		release()
		held = append(held, func() { kernels.Close() })
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		w, err := s.Load("s7", uid, 8*mib)
		if err != nil {
			b.Fatal(err)
		}
		_, release, err := w.Hold()
		if err != nil {
			b.Fatal(err)
		}
		release()
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
	}
	for _, close := range held {
		close()
	}
}
