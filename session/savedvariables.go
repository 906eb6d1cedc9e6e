package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"talaria/api"
	"talaria/artifacts"
	"talaria/kernel/command"
	"talaria/kernel/disk"
	"talaria/kernel/record"
	"talaria/kernel/workspace"
)

const (
	// savedFile is where variables are on their way into a kernel and out of it: in the workspace, under a name that belongs to
	// unfinished uploads, so that nobody lists it and a crash leaves nothing.
	savedFile = ".talaria-upload-variables"
	// saveTime is how long saving variables may take. What there is no time for is named.
	saveTime = time.Minute
	// savedOverhead is what a file of variables may have besides their values.
	savedOverhead = 64 << 20
	// leastRoom is what a workspace that is not full has room for.
	leastRoom = 1 << 20

	unchanged = "; nothing was changed"
)

// savedVariables are the variables of a session without a kernel. They are a blob among the artifacts.
type savedVariables struct {
	Digest         string         `json:"digest"` // of the blob
	Check          string         `json:"check"`  // what the file says its digest is
	Bytes          int64          `json:"bytes"`
	ExecutionCount int64          `json:"execution_count"`
	NotSaved       []api.NotSaved `json:"not_saved"`
	Attempts       int            `json:"attempts,omitzero"` // to load them into a kernel of this session that failed
}

// decodeSaved returns the variables of a row, or nil.
func decodeSaved(encoded []byte) (*savedVariables, error) {
	if encoded == nil {
		return nil, nil
	}
	saved := new(savedVariables)
	if err := jsonv2.Unmarshal(encoded, saved); err != nil {
		return nil, fmt.Errorf("decode the saved variables: %w", err)
	}
	return saved, nil
}

// untried returns the same variables for another session, or for this one once more. They may be nil.
func (v *savedVariables) untried() *savedVariables {
	if v == nil {
		return nil
	}
	again := *v
	again.Attempts = 0
	return &again
}

// variablesFile is the way of variables out of a kernel and into one: a file of the workspace. It is immutable.
type variablesFile struct {
	host      Host
	dir       *disk.Workspace
	name      string // of the file
	artifacts *artifacts.Store
	spare     func() error // why nothing can be written to the server's disk, or nil
}

// save has a kernel save its variables as asking says, which takes limit bytes of values at most, and takes them among the
// artifacts, where hold protects them. count is the execution count that goes with them. The error is also workspace.ErrNoSpace if
// the workspace is full.
func (v variablesFile) save(
	ctx context.Context, hold *artifacts.Hold, key record.Key, limit, count int64, asking command.Asking[command.SavedVariables],
) (*savedVariables, error) {
	if err := v.spare(); err != nil {
		return nil, err
	}
	_, release, err := v.dir.Hold() // what a crash has left in the workspace is removed now, and not with the file
	if err != nil {
		return nil, err
	}
	defer release()
	defer v.remove(ctx)
	began := time.Now()
	made, err := command.Ask(ctx, v.host, key, asking)
	switch {
	case errors.Is(err, command.ErrKernelBusy):
		return nil, api.Errorf(api.CodeKernelBusy, "the interpreter is busy, perhaps with a background task that does not yield; try again")
	case errors.Is(err, command.ErrTooOld):
		return nil, api.Errorf(api.CodeNotImplemented, "the process that runs this kernel belongs to an earlier version and cannot save these variables; reset the session")
	case errors.Is(err, context.DeadlineExceeded):
		return nil, api.Errorf(api.CodeKernelBusy,
			"saving the variables was abandoned after %s, all the time that there was for it"+unchanged, time.Since(began).Round(time.Second))
	case err != nil:
		return nil, fmt.Errorf("save the variables: %w", err)
	case made.Reason != "":
		err := error(api.Errorf(api.CodeDiskLimit, "the variables could not be saved: %.500s"+unchanged, made.Reason))
		if v.isFull(ctx) {
			err = fmt.Errorf("%w: %w", err, workspace.ErrNoSpace)
		}
		return nil, err
	}
	f, entry, err := v.dir.Open(v.name)
	if err != nil {
		return nil, fmt.Errorf("open the saved variables: %w", err)
	}
	defer f.Close()
	if entry.Size > limit+savedOverhead {
		return nil, api.Errorf(api.CodeDiskLimit, "the saved variables take %d bytes, and the limit is %d"+unchanged, entry.Size, limit)
	}
	blob, err := hold.Put(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("keep the saved variables: %w", err)
	}
	return &savedVariables{Digest: blob.SHA256, Check: made.Digest, Bytes: blob.Size, ExecutionCount: count, NotSaved: notSaved(made.Lost)}, nil
}

// isFull reports whether the workspace has no room for a file of variables, even one that names them only.
func (v variablesFile) isFull(ctx context.Context) bool {
	_, _, err := v.dir.Write(ctx, v.name, bytes.NewReader(make([]byte, leastRoom)), leastRoom)
	return errors.Is(err, workspace.ErrNoSpace)
}

func notSaved(losses []record.Loss) []api.NotSaved {
	list := make([]api.NotSaved, len(losses))
	for i, loss := range losses {
		list[i] = api.NotSaved{Name: loss.Name, Type: loss.Type, Reason: loss.Reason}
	}
	return list
}

// remove removes the file.
func (v variablesFile) remove(ctx context.Context) {
	_ = v.dir.Remove(context.WithoutCancel(ctx), v.name) // it may not be there; a later server removes it
}

// place puts saved variables where a kernel can read them; the caller calls remove. If there is no room for them it
// fails with disk_limit or disk_full, and they are to stay saved.
func (v variablesFile) place(ctx context.Context, saved *savedVariables) error {
	if err := v.spare(); err != nil {
		return err
	}
	blob, size, err := v.artifacts.Get(saved.Digest)
	if err != nil {
		return err
	}
	defer blob.Close()
	if _, _, err = v.dir.Write(ctx, v.name, blob, size); errors.Is(err, workspace.ErrNoSpace) {
		return api.Errorf(api.CodeDiskLimit, "the workspace has no room for the %d bytes of the saved variables, which it needs while they "+
			"are loaded; delete files, or raise limits.disk_bytes, and use the session again: until then they stay saved", size)
	}
	return err
}

// load has a kernel load variables that place has placed, and returns what is not there. placed is why place could not place them,
// or nil.
func (v variablesFile) load(ctx context.Context, key record.Key, saved *savedVariables, placed error) ([]api.NotRestored, error) {
	if placed != nil {
		return nil, placed
	}
	made, err := command.Ask(ctx, v.host, key, command.LoadVariables{Path: v.name, Digest: saved.Check})
	if err != nil {
		return nil, err
	}
	lost := []api.NotRestored{}
	if made.Reason != "" {
		lost = append(lost, api.NotRestored{Name: "all variables", Reason: made.Reason})
	}
	for _, loss := range made.Lost {
		reason := loss.Reason
		if loss.Type != "" {
			reason = loss.Type + ": " + reason
		}
		lost = append(lost, api.NotRestored{Name: loss.Name, Reason: reason})
	}
	return lost, nil
}
