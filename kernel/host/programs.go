package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"syscall"

	"talaria/kernel"
	"talaria/kernel/command"
)

// programs are the programs of an interpreter's sandbox. Guarded by interpreter.mu.
type programs struct {
	list     []*program
	starting int // that are not in list yet
	last     int // the number of the newest one
}

// forSlowReaders is how many programs more than command.MaxPrograms are kept, so that a reader gets the end of one that has ended.
const forSlowReaders = 8

func (k *interpreter) startProgram(ctx context.Context, c command.StartProgram) (string, error) {
	sandbox := k.usable()
	if sandbox == nil {
		return "", command.ErrNoKernel
	}
	if len(c.Args) == 0 {
		return "", command.ErrNoProgram
	}
	id, err := k.admitProgram()
	if err != nil {
		return "", err
	}
	env := maps.Clone(k.proxies)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, c.Env)
	p, err := launch(ctx, sandbox, id, env, c)
	if err == nil {
		go p.run()
	}
	k.mu.Lock()
	k.programs.starting--
	late := k.phase >= leaving
	if err == nil && !late {
		k.programs.list = append(k.programs.list, p)
	}
	k.mu.Unlock()
	switch {
	case late && err == nil: // it ends with the sandbox
		<-p.done
		return "", command.ErrNoKernel
	case late:
		return "", command.ErrNoKernel
	case err != nil:
		return "", fmt.Errorf("start a program: %w", startError(err))
	}
	return id, nil
}

// launch starts a program in a sandbox, with the variables of env. The caller runs it.
func launch(ctx context.Context, s kernel.Sandbox, id string, env map[string]string, c command.StartProgram) (*program, error) {
	var input *programInput
	start := kernel.Program{Args: c.Args, Env: env, Dir: c.Dir, Group: c.Group}
	if c.Stdin {
		made, inside, err := newProgramInput()
		if err != nil {
			return nil, err
		}
		defer inside.Close()
		input, start.Stdin = made, inside
	}
	process, err := s.Start(ctx, start)
	if err != nil {
		input.close()
		return nil, err
	}
	info := command.ProgramInfo{ID: id, Args: c.Args, Dir: c.Dir, Tag: c.Tag}
	if locator, ok := process.(kernel.ProcessLocator); ok {
		info.Place = locator.Locate()
	}
	return newProgram(info, process, input), nil
}

// admitProgram makes room for another program and returns its id. The caller decrements starting.
func (k *interpreter) admitProgram() (id string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := &k.programs
	over := 0
	for _, one := range p.list {
		if one.isOver() {
			over++
		}
	}
	if len(p.list)-over+p.starting >= command.MaxPrograms {
		return "", command.ErrTooManyPrograms
	}
	if len(p.list)+p.starting >= command.MaxPrograms {
		// Those go first whose end was read, or that nobody reads. A few more are kept for slow readers.
		forget := slices.IndexFunc(p.list, (*program).isLeft)
		if forget < 0 && len(p.list)+p.starting >= command.MaxPrograms+forSlowReaders {
			forget = slices.IndexFunc(p.list, (*program).isOver)
		}
		if forget >= 0 {
			p.list = slices.Delete(p.list, forget, forget+1)
		}
	}
	p.starting++
	p.last++
	return strconv.Itoa(p.last), nil
}

func (k *interpreter) program(id string) (*program, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.phase >= leaving {
		return nil, command.ErrNoKernel
	}
	for _, p := range k.programs.list {
		if p.info.ID == id {
			return p, nil
		}
	}
	return nil, command.ErrNoProgram
}

func (k *interpreter) listPrograms() []command.ProgramInfo {
	k.mu.Lock()
	all := slices.Clone(k.programs.list)
	k.mu.Unlock()
	list := []command.ProgramInfo{}
	for _, p := range all {
		if !p.isOver() {
			list = append(list, p.info)
		}
	}
	return list
}

func (k *interpreter) readProgram(ctx context.Context, c command.ReadProgram) (command.ProgramOutput, error) {
	p, err := k.program(c.ID)
	if err != nil {
		return command.ProgramOutput{}, err
	}
	return p.next(ctx, c)
}

// running is program for one that has not ended.
func (k *interpreter) running(id string) (*program, error) {
	p, err := k.program(id)
	if err == nil && p.isOver() {
		return nil, command.ErrNoProgram
	}
	return p, err
}

func (k *interpreter) writeProgram(ctx context.Context, c command.WriteProgram) (int, error) {
	p, err := k.running(c.ID)
	if err != nil {
		return 0, err
	}
	return p.input.write(ctx, c.Data)
}

func (k *interpreter) closeProgramInput(id string) error {
	p, err := k.running(id)
	if err != nil {
		return err
	}
	if p.input == nil {
		return command.ErrInputClosed
	}
	p.input.close()
	return nil
}

func (k *interpreter) signalProgram(c command.SignalProgram) error {
	p, err := k.program(c.ID)
	if err != nil {
		return err
	}
	send := p.process.Signal
	if leader, ok := p.process.(kernel.GroupSignaler); ok && c.Group {
		send = leader.SignalGroup
	}
	err = send(syscall.Signal(c.Signal))
	if errors.Is(err, os.ErrProcessDone) {
		return command.ErrNoProgram
	}
	return err
}

// closePrograms waits until no program runs. The sandbox has been closed.
func (k *interpreter) closePrograms() {
	k.mu.Lock()
	all := k.programs.list
	k.programs.list = nil
	k.mu.Unlock()
	for _, p := range all {
		<-p.done
	}
}
