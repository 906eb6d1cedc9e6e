package host_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/host"
	"talaria/kernel/kerneltest"
	"talaria/kernel/record"
)

// doomedDir names the variable that turns this test binary into a host with its records in that directory.
const doomedDir = "TALARIA_TEST_DOOMED_DIR"

// doomedHost runs a cell that prints forever, and prints the number of every record that it reads. It gets killed.
func doomedHost(dir string) {
	h := host.NewHost(host.HostConfig{SpoolDir: dir, JoinWindow: -1, Backend: kerneltest.NewFake(kerneltest.Cells(
		func(c *kerneltest.Cell) {
			for i := 0; ; i++ {
				c.Print(strings.Repeat(fmt.Sprintf("%d\n", i), 1+i%500))
			}
		}))})
	ctx, key := context.Background(), record.Key{Session: "s", Generation: 1}
	if _, err := h.Start(ctx, key, kernel.Environment{}, kernel.Spec{}); err != nil {
		panic(err)
	}
	if err := command.Tell(ctx, h, key, command.Execution{ID: "e1"}); err != nil {
		panic(err)
	}
	for after := uint64(0); ; {
		_, last, err := h.Read(ctx, key, after)
		if err != nil {
			panic(err)
		}
		after = last
		fmt.Println(after)
		if after > 100 {
			h.Ack(key, after-100)
		}
	}
}

func TestWhatAReaderHadIsOnTheDiskWhenTheHostIsKilled(t *testing.T) {
	for range 8 {
		dir := t.TempDir()
		host := exec.Command(os.Args[0])
		host.Env = append(os.Environ(), doomedDir+"="+dir)
		host.Stderr = os.Stderr
		out, err := host.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := host.Start(); err != nil {
			t.Fatal(err)
		}
		had, lines := uint64(0), rand.IntN(3000)
		read := func(said *bufio.Scanner) {
			if had, err = strconv.ParseUint(said.Text(), 10, 64); err != nil {
				t.Error(err)
			}
		}
		said := bufio.NewScanner(out)
		for i := 0; i <= lines && said.Scan(); i++ {
			read(said)
		}
		if err := host.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		for said.Scan() { // what it said in the meantime
			read(said)
		}
		_ = host.Wait()
		after := had - min(had, 100)
		records, d, err := readDead(t, dir, after)
		if err != nil || d.Last() < had || uint64(len(records)) != d.Last()-after || d.Given() != "e1" {
			t.Fatalf("it gave out %d; there are %d records after %d, the last is %d, given %q: %v",
				had, len(records), after, d.Last(), d.Given(), err)
		}
		for i, r := range records {
			s, ok := r.Body.(record.Stream)
			number := r.KSeq - 2 // of the line in it
			if want := strings.Repeat(fmt.Sprintf("%d\n", number), int(1+number%500)); r.KSeq != after+uint64(i)+1 ||
				r.KSeq > 1 && (!ok || s.Text != want) {
				t.Fatalf("record %d: %.60q", r.KSeq, s.Text)
			}
		}
	}
}
