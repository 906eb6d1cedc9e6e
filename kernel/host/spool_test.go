package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/host"
	"talaria/kernel/kerneltest"
	"talaria/kernel/record"
	"talaria/kernel/spool"
)

// spoolIn sets the directory of the records, and the number of bytes at which a kernel waits. A segment has a
// sixteenth of that.
func spoolIn(dir string, size int64) setting {
	return func(cfg *host.HostConfig, _ *kerneltest.Fake) {
		cfg.SpoolDir, cfg.SpoolBytes, cfg.JoinWindow = dir, size, -1
	}
}

// segmentFiles lists the files of the rig's kernel, in order.
func segmentFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "s.1", "*"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	return files
}

func sizeOf(t *testing.T, files []string) int64 {
	t.Helper()
	var size int64
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	return size
}

// leftBy copies what a host has on the disk at this moment, as its crash would leave it.
func leftBy(t *testing.T, dir string) string {
	t.Helper()
	left := filepath.Join(t.TempDir(), "left")
	if err := os.CopyFS(left, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return left
}

// readDead reads everything that a dead host left of the rig's kernel.
func readDead(t *testing.T, dir string, after uint64) (records []record.Record, d *spool.Dead, err error) {
	t.Helper()
	d, err = spool.OpenDead(dir, record.Key{Session: "s", Generation: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for {
		batch, err := d.Next(after)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return records, d, err
		}
		records = append(records, batch...)
		after = batch[len(batch)-1].KSeq
	}
}

func variedCell(c *kerneltest.Cell) {
	c.Print("héllo\n")
	c.Display(map[string]any{"text/plain": "shown", "application/json": map[string]any{"a": []int{1}}})
	c.PrintErr("oh")
	c.Clear(true)
	c.Result(c.Code)
}

// lived returns a directory with the records of a kernel that ran two cells, and these records.
func lived(t *testing.T, segmentBytes int64, die bool) (dir string, all []record.Record) {
	t.Helper()
	dir = t.TempDir()
	r := newRig(t, kerneltest.Cells(variedCell), spoolIn(dir, 16*segmentBytes))
	for _, id := range []string{"e1", "e2"} {
		r.execute(command.Execution{ID: id, Code: "42"})
		for finished := false; !finished; { // without acknowledging
			batch, err := r.host.Next(t.Context(), r.key, uint64(len(all)))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, batch...)
			finished = is[record.Finished](all[len(all)-1])
		}
	}
	if die {
		r.fake.KillAll(syscall.SIGKILL)
		batch, err := r.host.Next(t.Context(), r.key, uint64(len(all)))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, batch...)
	}
	return leftBy(t, dir), all
}

func TestWhatADeadHostLeftIsReadAsItWas(t *testing.T) {
	for _, die := range []bool{false, true} {
		dir, want := lived(t, 4<<20, die)
		got, d, err := readDead(t, dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if d.Last() != uint64(len(want)) || d.Given() != "e2" || d.Ended() != die {
			t.Errorf("last %d, given %s, ended %v", d.Last(), d.Given(), d.Ended())
		}
		for after := range want {
			if got, _, err := readDead(t, dir, uint64(after)); err != nil || len(got) != len(want)-after || got[0].KSeq != uint64(after+1) {
				t.Errorf("after %d: %d records, %v", after, len(got), err)
			}
		}
	}
}

// ends returns where the records of a file end; the first value is where they begin.
func ends(t *testing.T, records []record.Record, b []byte) []int {
	t.Helper()
	ends := []int{len(b)}
	for _, r := range slices.Backward(records) {
		encoded, err := record.Append(nil, r)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, ends[len(ends)-1]-len(encoded))
	}
	slices.Reverse(ends)
	return ends
}

func TestATornLastRecordIsDropped(t *testing.T) {
	dir, want := lived(t, 4<<20, false)
	file := segmentFiles(t, dir)[0]
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	at := ends(t, want, whole)
	write := func(b []byte) {
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n := len(want) - 1
	for size := range whole {
		write(whole[:size])
		got, d, err := readDead(t, dir, 0)
		kept := max(0, sort(at, size)-1)
		if err != nil || len(got) != kept || d.Last() != uint64(kept) {
			t.Fatalf("cut off at %d: %d records, last %d, %v; want %d", size, len(got), d.Last(), err, kept)
		}
	}
	for i := at[n]; i < at[n+1]; i++ {
		write(flipped(whole, i))
		if got, _, err := readDead(t, dir, 0); err != nil || !cmp.Equal(got, want[:n]) {
			t.Fatalf("byte %d of the last record changed: %d records, %v", i-at[n], len(got), err)
		}
	}
	write(append(slices.Clip(whole), make([]byte, 5000)...)) // as a machine's crash may leave it
	if got, _, err := readDead(t, dir, 0); err != nil || !cmp.Equal(got, want) {
		t.Fatalf("zeros at the end: %d records, %v", len(got), err)
	}
}

// sort returns how many of the numbers are at most n.
func sort(numbers []int, n int) int {
	i, _ := slices.BinarySearch(numbers, n+1)
	return i
}

func flipped(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[at] ^= 0x41
	return b
}

func TestDamageInTheMiddleIsToldAndWhatIsBeforeItIsGiven(t *testing.T) {
	dir, want := lived(t, 4<<20, true)
	file := segmentFiles(t, dir)[0]
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	at := ends(t, want, whole)
	for i := range at[len(want)-1] { // up to the last record
		if err := os.WriteFile(file, flipped(whole, i), 0o600); err != nil {
			t.Fatal(err)
		}
		got, d, err := readDead(t, dir, 0)
		kept := max(0, sort(at, i)-1)
		if !errors.Is(err, spool.ErrDamaged) && i != 8 || err == nil || !strings.Contains(err.Error(), file) || d.Ended() {
			t.Fatalf("byte %d changed: error %v, ended %v", i, err, d.Ended())
		}
		if !cmp.Equal(got, slices.Clip(want[:kept]), cmp.Transformer("", func(r []record.Record) int { return len(r) })) ||
			kept > 0 && !cmp.Equal(got, want[:kept]) {
			t.Fatalf("byte %d changed: %d records are given, want %d", i, len(got), kept)
		}
	}
}

func TestSegmentsOfADeadHostAreOneSequence(t *testing.T) {
	var dir string
	r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
		for i := range 50 {
			c.Print(strings.Repeat(fmt.Sprintf("%09d\n", i), 100))
		}
	}), spoolIn(t.TempDir(), 64<<20), func(cfg *host.HostConfig, _ *kerneltest.Fake) { dir, cfg.SpoolBytes = cfg.SpoolDir, 64<<10 })
	r.execute(command.Execution{ID: "e1"})
	var want []record.Record
	for len(want) < 52 {
		batch, err := r.host.Next(t.Context(), r.key, uint64(len(want)))
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, batch...)
	}
	dir = leftBy(t, dir)
	if n := len(segmentFiles(t, dir)); n < 8 {
		t.Fatalf("%d segments", n)
	}
	if got, d, err := readDead(t, dir, 0); err != nil || !cmp.Equal(got, want) || d.Given() != "e1" {
		t.Errorf("%d records, %v", len(got), err)
	}
	for i, file := range segmentFiles(t, dir)[1:] {
		damaged := leftBy(t, dir)
		gone := segmentFiles(t, damaged)[i+1]
		if err := os.Remove(gone); err != nil {
			t.Fatal(err)
		}
		got, _, err := readDead(t, damaged, 0)
		last := i+1 == len(segmentFiles(t, dir))-1
		if len(got) == 0 || !cmp.Equal(got, want[:len(got)]) || last != (err == nil) || err != nil && !strings.Contains(err.Error(), gone) {
			t.Errorf("without %s: %d records, %v", file, len(got), err)
		}
	}
	cut := segmentFiles(t, dir)[3]
	if err := os.Truncate(cut, sizeOf(t, []string{cut})-1); err != nil {
		t.Fatal(err)
	}
	if _, _, err := readDead(t, dir, 0); !errors.Is(err, spool.ErrDamaged) || !strings.Contains(err.Error(), cut) {
		t.Errorf("a record in the middle is cut off: %v", err)
	}
}

func TestAcknowledgedRecordsLeaveTheDisk(t *testing.T) {
	dir := t.TempDir()
	line := strings.Repeat("0123456789abcde\n", 4<<10)
	r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
		for range 300 {
			c.Print(line)
		}
	}), spoolIn(dir, 0))
	r.execute(command.Execution{ID: "e1"})
	last := uint64(0)
	for finished := false; !finished; {
		batch, err := r.host.Next(t.Context(), r.key, last)
		if err != nil {
			t.Fatal(err)
		}
		last, finished = batch[len(batch)-1].KSeq, is[record.Finished](batch[len(batch)-1])
	}
	before := sizeOf(t, segmentFiles(t, dir))
	if n := len(segmentFiles(t, dir)); n < 4 || before < 300*int64(len(line)) {
		t.Fatalf("%d segments with %d bytes", n, before)
	}
	r.host.Ack(r.key, last/2)
	if half := sizeOf(t, segmentFiles(t, dir)); half > before/2+5<<20 {
		t.Errorf("half of %d bytes are acknowledged, %d are left", before, half)
	}
	batch, err := r.host.Next(t.Context(), r.key, last/2)
	if err != nil || batch[0].KSeq != last/2+1 {
		t.Errorf("the other half: %v", err)
	}
	r.host.Ack(r.key, last)
	if n, rest := len(segmentFiles(t, dir)), sizeOf(t, segmentFiles(t, dir)); n != 1 || rest > 1<<10 {
		t.Errorf("all is acknowledged, %d segments with %d bytes are left", n, rest)
	}
	if _, d, err := readDead(t, leftBy(t, dir), 0); err != nil || d.Last() != last || d.Given() != "e1" {
		t.Errorf("a crash here: last %d of %d, given %s, %v", d.Last(), last, d.Given(), err)
	}
	r.used = int(last)
	r.seen = make([]record.Record, last)
	r.execute(command.Execution{ID: "e2"})
	if got := text(r.untilFinished(), "stdout"); got != strings.Repeat(line, 300) {
		t.Errorf("the next cell printed %d bytes", len(got))
	}
}

func TestRecordsAreReadAndAcknowledgedAtOnce(t *testing.T) {
	const lines = 20_000
	r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
		for i := range lines / 100 {
			var b strings.Builder
			for j := range 100 {
				fmt.Fprintf(&b, "%0500d\n", i*100+j)
			}
			c.Print(b.String())
		}
	}), func(cfg *host.HostConfig, _ *kerneltest.Fake) { cfg.SpoolBytes = 1 << 20 })
	r.execute(command.Execution{ID: "e1"})
	var all sync.WaitGroup
	acks := make(chan uint64, 1000)
	all.Go(func() {
		for kseq := range acks {
			r.host.Ack(r.key, kseq)
		}
	})
	stop, cancel := context.WithCancel(t.Context())
	all.Go(func() { // a reader that is behind may miss acknowledged records, and nothing else
		for after := uint64(0); ; {
			batch, err := r.host.Next(stop, r.key, after)
			if err != nil {
				return
			}
			if batch[0].KSeq <= after {
				t.Errorf("record %d after %d", batch[0].KSeq, after)
			}
			after = batch[len(batch)-1].KSeq / 2
		}
	})
	printed := ""
	for after := uint64(0); ; {
		batch, err := r.host.Next(t.Context(), r.key, after)
		if err != nil || batch[0].KSeq != after+1 {
			t.Fatalf("after %d: %v", after, err)
		}
		printed += text(batch, "stdout")
		after = batch[len(batch)-1].KSeq
		acks <- after
		if is[record.Finished](batch[len(batch)-1]) {
			break
		}
	}
	cancel()
	close(acks)
	all.Wait()
	for i, line := range strings.Fields(printed) {
		if line != fmt.Sprintf("%0500d", i) {
			t.Fatalf("line %d is %.20s…", i, line)
		}
	}
	if n := strings.Count(printed, "\n"); n != lines {
		t.Errorf("%d lines", n)
	}
}

// heldUp returns a logger, and the channel on which it reports that a spool accepts nothing.
func heldUp() (*slog.Logger, chan string) {
	told := make(chan string, 100)
	return slog.New(slog.NewTextHandler(writerFunc(func(b []byte) {
		if bytes.Contains(b, []byte("level=ERROR")) {
			told <- string(b)
		}
	}), nil)), told
}

type writerFunc func([]byte)

func (w writerFunc) Write(b []byte) (int, error) { w(b); return len(b), nil }

// smallDisk makes a file system with that many bytes.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("small", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Skipf("mounting a small file system takes root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

func TestAFullDiskSlowsTheKernelAndLosesNothing(t *testing.T) {
	const pieces, disk = 1000, 1 << 20
	dir := smallDisk(t, disk)
	line := strings.Repeat("0123456789abcde\n", 512)
	synctest.Test(t, func(t *testing.T) {
		log, told := heldUp()
		var printed atomic.Int64
		r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
			for range pieces {
				c.Print(line)
				printed.Add(int64(len(line)))
			}
		}), spoolIn(dir, 2*disk), func(cfg *host.HostConfig, _ *kerneltest.Fake) { cfg.Log = log })
		r.execute(command.Execution{ID: "e1"})
		time.Sleep(time.Minute) // the disk is tried several more times
		synctest.Wait()
		if n := printed.Load(); n < disk/2 || n > disk+disk/4 {
			t.Errorf("the cell printed %d bytes on a disk of %d", n, disk)
		}
		if got := <-told; !strings.Contains(got, "no space left on device") || !strings.Contains(got, "session=s") || len(told) > 0 {
			t.Errorf("the operator is told %d times: %s", 1+len(told), got)
		}
		if _, err := command.Ask(t.Context(), r.host, r.key, command.ReadUsage{}); err != nil {
			t.Errorf("the host does not answer: %v", err)
		}
		if got := text(r.untilFinished(), "stdout"); got != strings.Repeat(line, pieces) {
			t.Errorf("%d bytes came, want %d", len(got), pieces*len(line))
		}
		if err := r.host.Stop(t.Context(), r.key, "reset"); err != nil {
			t.Fatal(err)
		}
		r.expect(r.untilDied(), ": died reset")
		if len(told) > 0 {
			t.Errorf("the operator is told again: %s", <-told)
		}
	})
}

func TestADiskThatWasFullIsTriedAgain(t *testing.T) {
	dir := smallDisk(t, 1<<20)
	log, told := heldUp()
	r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) { c.Print(strings.Repeat("x", 10_000)) }), spoolIn(dir, 0),
		func(cfg *host.HostConfig, _ *kerneltest.Fake) { cfg.Log = log })
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 2<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	r.execute(command.Execution{ID: "e1"})
	<-told
	if err := command.Tell(t.Context(), r.host, r.key, command.Interrupt{ExecutionID: "e1"}); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if got := text(r.untilFinished(), "stdout"); len(got) != 10_000 {
		t.Errorf("%d bytes came", len(got))
	}
	if len(told) > 0 {
		t.Errorf("the operator is told again: %s", <-told)
	}
	if err := r.host.Stop(t.Context(), r.key, "reset"); err != nil {
		t.Fatal(err)
	}
	r.untilDied()
}

func TestAKernelsFolderIsItsOwn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	fake := kerneltest.NewFake(kerneltest.Cells(func(*kerneltest.Cell) {}))
	key := record.Key{Session: "0198c1de-7a55-7b21-9d2e-000000000001", Generation: 12}
	start := func(key record.Key) (*host.Host, error) {
		h := host.NewHost(host.HostConfig{Backend: fake, SpoolDir: dir})
		t.Cleanup(func() { _ = h.Close(context.Background()) })
		_, err := h.Start(t.Context(), key, kernel.Environment{}, kernel.Spec{})
		return h, err
	}
	first, err := start(key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := start(key); !errors.Is(err, command.ErrKernelExists) || !strings.Contains(err.Error(), dir) {
		t.Errorf("a second host that has the directory: %v", err)
	}
	if keys, err := spool.Keys(dir); err != nil || !slices.Equal(keys, []record.Key{key}) {
		t.Errorf("keys %v, %v", keys, err)
	}
	for _, odd := range []string{"", ".", "..", "a/b", "../a", "a.b", "a b", ".a", "a\x00", strings.Repeat("a", 200)} {
		if _, err := start(record.Key{Session: odd, Generation: 1}); err == nil {
			t.Errorf("a session named %q has a folder", odd)
		}
	}
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	d, err := spool.OpenDead(dir, key)
	if err != nil || d.Last() != 1 || !d.Ended() {
		t.Fatalf("after the host was closed: %+v, %v", d, err)
	}
	d.Close()
	first.Ack(key, 1)
	if _, err := spool.OpenDead(dir, key); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the last record is acknowledged: %v", err)
	}
	fake.StartErr = errors.New("broken")
	if _, err := start(key); err == nil {
		t.Fatal("a broken start")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v, %v is left", left, err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "s.1"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := spool.Remove(dir, record.Key{Session: "s", Generation: 1}); err != nil {
			t.Error(err)
		}
	}
	if keys, err := spool.Keys(dir); err != nil || len(keys) != 0 {
		t.Errorf("keys %v, %v", keys, err)
	}
}
