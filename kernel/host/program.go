package host

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"talaria/kernel"
	"talaria/kernel/command"
)

// program is a program in the sandbox, beside the interpreter, whose output goes to two pipes.
type program struct {
	info    command.ProgramInfo
	process kernel.Process
	input   *programInput // nil if it was started without
	done    chan struct{} // closed when it has ended and its output is kept

	mu       sync.Mutex // guards the fields below
	streams  [2]keptStream
	ended    bool
	told     bool          // somebody has read that it ended
	lastRead time.Time     // when somebody asked for output last
	more     chan struct{} // closed, and replaced, when there is more
	taken    chan struct{} // closed, and replaced, when output was read
}

// keptStream is the last part of a stream.
type keptStream struct {
	data []byte
	end  int64 // offset after it
	read int64 // offset after what was read
}

// readerPatience is how long a program that prints much waits for its reader. After that nobody counts as reading, and old
// output goes.
const readerPatience = 5 * time.Second

// newProgram takes ownership of the process and the input, which may be nil. run must be called once.
func newProgram(info command.ProgramInfo, process kernel.Process, input *programInput) *program {
	return &program{
		info: info, process: process, input: input, done: make(chan struct{}),
		lastRead: time.Now(), more: make(chan struct{}), taken: make(chan struct{}),
	}
}

// run keeps the output until the program has ended. Processes that it left running may hold its pipes open; run does not
// wait for them.
func (p *program) run() {
	defer close(p.done)
	pipes := [2]*os.File{p.process.Stdout(), p.process.Stderr()}
	var readers sync.WaitGroup
	for i, pipe := range pipes {
		readers.Go(func() { p.read(i, pipe) })
	}
	<-p.process.Done()
	p.input.close()
	for _, pipe := range pipes {
		_ = pipe.SetReadDeadline(time.Unix(1, 0)) // fails only if it is closed
	}
	readers.Wait()
	for i, pipe := range pipes {
		p.drain(i, pipe)
		_ = pipe.Close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	close(p.more)
}

// read returns at the end of the pipe, or when a deadline ends it.
func (p *program) read(stream int, pipe *os.File) {
	buffer := make([]byte, 32<<10)
	for {
		p.await(stream)
		n, err := pipe.Read(buffer)
		p.add(stream, buffer[:n])
		if err != nil {
			return
		}
	}
}

// await waits while a reader has not taken what is kept: the program then waits, too, and no output is lost.
func (p *program) await(stream int) {
	for {
		p.mu.Lock()
		k := &p.streams[stream]
		full, patience, taken := k.end-k.read >= command.ProgramBytes, readerPatience-time.Since(p.lastRead), p.taken
		p.mu.Unlock()
		if !full || patience <= 0 {
			return
		}
		timer := time.NewTimer(patience)
		select {
		case <-taken:
		case <-timer.C:
		case <-p.process.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// drain takes what is in the pipe already.
func (p *program) drain(stream int, pipe *os.File) {
	conn, err := pipe.SyscallConn()
	if err != nil {
		return
	}
	buffer := make([]byte, 32<<10)
	for taken := 0; taken < 2*command.ProgramBytes; { // more than a pipe holds
		n := 0
		err := conn.Control(func(fd uintptr) { n, _ = unix.Read(int(fd), buffer) })
		if err != nil || n <= 0 {
			return
		}
		p.add(stream, buffer[:n])
		taken += n
	}
}

func (p *program) add(stream int, data []byte) {
	if len(data) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	k := &p.streams[stream]
	k.data = append(k.data, data...)
	k.end += int64(len(data))
	keep := int64(command.ProgramBytes)
	if time.Since(p.lastRead) < readerPatience {
		keep = max(keep, k.end-k.read) // bounded by await, and by what a pipe holds
	}
	if int64(len(k.data)) > keep+command.ProgramBytes/4 { // so that bytes are not moved for each byte that arrives
		k.data = k.data[:copy(k.data, k.data[int64(len(k.data))-keep:])]
	}
	close(p.more)
	p.more = make(chan struct{})
}

// next waits for output after the offsets of the command, or for the end.
func (p *program) next(ctx context.Context, c command.ReadProgram) (command.ProgramOutput, error) {
	for {
		out, more := p.piece(c)
		if len(out.Stdout.Data)+len(out.Stderr.Data) > 0 || out.Ended {
			return out, nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return command.ProgramOutput{}, context.Cause(ctx)
		}
	}
}

func (p *program) piece(c command.ReadProgram) (out command.ProgramOutput, more <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastRead = time.Now()
	p.streams[0].read, p.streams[1].read = max(p.streams[0].read, c.Stdout), max(p.streams[1].read, c.Stderr)
	close(p.taken)
	p.taken = make(chan struct{})
	var all, whole bool
	out.Stdout, all = p.streams[0].after(c.Stdout)
	out.Stderr, whole = p.streams[1].after(c.Stderr)
	if p.ended && all && whole {
		exit := p.process.Exit()
		p.told = true
		out.Ended, out.Code, out.Signal = true, exit.Code, int(exit.Signal)
		if exit.Lost {
			out.Signal = int(syscall.SIGKILL)
		}
	}
	return out, p.more
}

// after returns what is kept after an offset, and whether that is all.
func (k *keptStream) after(offset int64) (piece command.Piece, all bool) {
	begin := k.end - int64(len(k.data))
	piece.Offset = min(max(offset, begin), k.end)
	rest := k.data[piece.Offset-begin:]
	piece.Data = append(piece.Data, rest[:min(len(rest), terminalRead)]...)
	return piece, len(piece.Data) == len(rest)
}

func (p *program) isOver() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// isLeft reports whether it has ended and nobody reads what it printed, or somebody has read all of it.
func (p *program) isLeft() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended && (p.told || time.Since(p.lastRead) >= readerPatience)
}

// startError tells a program or folder that does not exist from other failures.
func startError(err error) error {
	for _, missing := range []syscall.Errno{syscall.ENOENT, syscall.ENOTDIR, syscall.EACCES, syscall.ENOEXEC, syscall.ENAMETOOLONG} {
		if errors.Is(err, missing) {
			return command.ErrNoProgram
		}
	}
	if errors.Is(err, io.EOF) {
		return command.ErrNoKernel
	}
	return err
}
