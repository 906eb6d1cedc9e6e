package processes

import (
	"context"
	"errors"
	"syscall"

	"talaria/api"
	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/record"
)

// The bounds of what starts a program.
const (
	maxProgramArgs  = 1000
	maxProgramBytes = 128 << 10 // of arguments and variables together
)

// Program is a program in the session's sandbox, beside the interpreter.
type Program struct {
	ID   string // unique in the session
	Args []string
	Dir  string
	Tag  string // what the caller of [Programs.Start] named it
	// Place is where it was when it had started; zero in a kernel of an earlier release.
	Place Place
}

// Place is a program's pid inside and on the host.
type Place = kernel.ProcessPlace

// Request is what [Programs.Start] starts.
type Request = command.StartProgram

// ProgramOutput is a piece of what a program has printed, and how it ended.
type ProgramOutput = command.ProgramOutput

// Programs are the programs in a session's sandbox that clients have started. They are safe for concurrent use.
type Programs struct{ b *beside }

// Start starts a program in the session's sandbox, and first a kernel if there is none. The program ends with the
// kernel. It counts as use of the session once.
func (p *Programs) Start(ctx context.Context, r Request) (id string, err error) {
	if err := checkProgram(r); err != nil {
		return "", err
	}
	key, err := p.b.Start(ctx, "the program")
	if err != nil {
		return "", err
	}
	bounded, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	number, err := command.Ask(bounded, p.b.Host, key, r)
	switch {
	case errors.Is(err, command.ErrNoKernel):
		return "", api.Errorf(api.CodeNoKernel, "the kernel ended while the program was starting; try again")
	case errors.Is(err, command.ErrNoProgram):
		return "", api.Errorf(api.CodeFileNotFound, "%.200q cannot be started: there is no such program, or no folder %.200q", r.Args[0], r.Dir)
	case err != nil:
		return "", programError(err, "")
	}
	return processID(key.Generation, number), p.b.Touch(ctx)
}

func checkProgram(r Request) error {
	if len(r.Args) == 0 || r.Args[0] == "" {
		return api.Errorf(api.CodeInvalidRequest, "the name of the program is missing")
	}
	if len(r.Args) > maxProgramArgs {
		return api.Errorf(api.CodePayloadTooLarge, "the program has more than %d arguments", maxProgramArgs)
	}
	bytes := 0
	check := func(texts ...string) bool {
		for _, text := range texts {
			bytes += len(text) + 1
			for i := range len(text) {
				if text[i] == 0 {
					return false
				}
			}
		}
		return true
	}
	fine := check(r.Args...) && check(r.Tag)
	for name, value := range r.Env {
		fine = fine && check(name, value) && name != ""
	}
	switch {
	case !fine:
		return api.Errorf(api.CodeInvalidRequest, "an argument, variable or tag of the program contains a NUL, or a variable has no name")
	case bytes > maxProgramBytes:
		return api.Errorf(api.CodePayloadTooLarge, "the arguments, variables and tag of the program have more than %d bytes", maxProgramBytes)
	}
	return nil
}

// List lists the programs that run.
func (p *Programs) List(ctx context.Context) ([]Program, error) {
	key := p.b.Key()
	infos, err := command.Ask(ctx, p.b.Host, key, command.ListPrograms{})
	if err != nil && !errors.Is(err, command.ErrNoKernel) {
		return nil, programError(err, "")
	}
	list := make([]Program, len(infos))
	for i, info := range infos {
		list[i] = Program{ID: processID(key.Generation, info.ID), Args: info.Args, Dir: info.Dir, Tag: info.Tag, Place: info.Place}
	}
	return list, nil
}

// Read waits for output after two offsets, one for each stream, or for the program's end. A program whose kernel has
// ended was killed with it. ctx bounds the wait.
func (p *Programs) Read(ctx context.Context, id string, stdout, stderr int64) (ProgramOutput, error) {
	key, number, ok := p.b.find(id)
	if !ok {
		return ProgramOutput{}, programError(command.ErrNoProgram, id)
	}
	for {
		bounded, cancel := context.WithTimeout(ctx, outputWait)
		out, err := command.Ask(bounded, p.b.Host, key, command.ReadProgram{ID: number, Stdout: stdout, Stderr: stderr})
		cancel()
		switch {
		case err == nil:
			return out, nil
		case ctx.Err() != nil:
			return ProgramOutput{}, context.Cause(ctx)
		case errors.Is(err, command.ErrNoKernel):
			return ProgramOutput{Stdout: command.Piece{Offset: stdout}, Stderr: command.Piece{Offset: stderr},
				Ended: true, Signal: int(syscall.SIGKILL)}, nil
		case !errors.Is(err, context.DeadlineExceeded): // here or at the host
			return ProgramOutput{}, programError(err, id)
		}
	}
}

// Write writes to the standard input of a program that was started with Stdin, which counts as use of the session. It
// waits while the program reads nothing, until ctx ends; then a part may have been written. It fails with no_input_pending if
// the program reads no input any more.
func (p *Programs) Write(ctx context.Context, id string, data []byte) error {
	key, number, ok := p.b.find(id)
	if !ok {
		return programError(command.ErrNoProgram, id)
	}
	for len(data) > 0 {
		n, err := p.writeSome(ctx, key, command.WriteProgram{ID: number, Data: data[:min(len(data), inputBytes)]})
		if err != nil {
			return programError(err, id)
		}
		if data = data[n:]; ctx.Err() != nil && len(data) > 0 {
			return context.Cause(ctx)
		}
	}
	return p.b.typed(context.WithoutCancel(ctx))
}

// writeSome does not end with ctx: then it would not be known how much was written.
func (p *Programs) writeSome(ctx context.Context, key record.Key, c command.WriteProgram) (int, error) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	defer cancel()
	return command.Ask(bounded, p.b.Host, key, c)
}

// CloseInput ends the standard input of a program: it still reads what was written before. Closing it again changes
// nothing.
func (p *Programs) CloseInput(ctx context.Context, id string) error {
	key, number, ok := p.b.find(id)
	if !ok {
		return programError(command.ErrNoProgram, id)
	}
	bounded, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	return programError(command.Tell(bounded, p.b.Host, key, command.CloseProgramInput{ID: number}), id)
}

// Signal sends a signal to a program that runs, and to its process group if it was started with Group.
func (p *Programs) Signal(ctx context.Context, id string, signal int) error {
	return p.signal(ctx, id, command.SignalProgram{Signal: signal})
}

// SignalGroup sends a signal to a program that runs, and to what it has started, except for what has left its process group.
func (p *Programs) SignalGroup(ctx context.Context, id string, signal int) error {
	return p.signal(ctx, id, command.SignalProgram{Signal: signal, Group: true})
}

func (p *Programs) signal(ctx context.Context, id string, c command.SignalProgram) error {
	key, number, ok := p.b.find(id)
	if !ok {
		return programError(command.ErrNoProgram, id)
	}
	bounded, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	c.ID = number
	return programError(command.Tell(bounded, p.b.Host, key, c), id)
}

func programError(err error, id string) error {
	switch {
	case errors.Is(err, command.ErrNoProgram), errors.Is(err, command.ErrNoKernel):
		return api.Errorf(api.CodeNotFound, "no program %.140q is running in this session", id)
	case errors.Is(err, command.ErrInputClosed):
		return api.Errorf(api.CodeNoInputPending, "program %.140q does not read input: it was started without input, has closed it, or its input was ended", id)
	case errors.Is(err, command.ErrTooManyPrograms):
		return api.Errorf(api.CodeLimitExceeded, "%v at a time; end one of them", command.ErrTooManyPrograms)
	case errors.Is(err, command.ErrTooOld):
		return ErrTooOld
	case errors.Is(err, context.DeadlineExceeded):
		return api.Errorf(api.CodeKernelBusy, "the session's kernel did not answer in time; try again")
	}
	return err
}
