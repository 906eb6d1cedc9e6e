package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"talaria/api"
	"talaria/artifacts"
	"talaria/kernel/workspace"
	"talaria/session/files"
)

const (
	// maxArtifacts is how many files one execution lists.
	maxArtifacts = 1000
	// maxListed bounds the JSON of that list.
	maxListed = 6 << 20
	// listedCost is the size of a listed file besides its path.
	listedCost = 512
	// MaxInlineBytes bounds the bytes of files that travel in the events of one execution.
	MaxInlineBytes = 16 << 20
	// maxPath is the longest path that can be opened.
	maxPath = 4095
	// A collection of more files or bytes than these takes a while, so everything before it is logged first.
	quickFiles = 64
	quickBytes = 1 << 20
)

// errCollectionStopped means that an interrupt or a delete does not wait for files to be copied.
var errCollectionStopped = errors.New("the files were not copied: the copy was interrupted")

// collector keeps the files that one execution created or changed, within the session's limits.
type collector struct {
	s      *Session
	r      *execution
	hold   *artifacts.Hold
	drafts []draft

	toRead    int64 // bytes that may still be read: holes take no space, but time
	toInline  int64
	listed    int // bytes of the list
	unlisted  int // files that are not listed
	omitted   int // listed files whose bytes are not kept
	failed    int // files that could not be read
	firstFail error
}

// collect returns the change that records what an execution did to the workspace: artifact events and the new snapshot.
// Its notices go to the execution's stderr. It comes before the end of the output. The caller calls endLook when the change is committed,
// or never will be.
func (t *translation) collect(r *execution) change {
	s := t.s
	if s.isGone() {
		return change{}
	}
	ctx, done := s.collecting(t.ctx)
	defer done()
	var next workspace.Snapshot
	var changes []workspace.Change
	looked, err := s.known.look(ctx)
	if err == nil {
		t.looked = looked
		known, _ := s.known.get()
		next, changes, err = s.known.scan(ctx, known)
	}
	if t.ctx.Err() != nil { // the next server looks for them
		t.failed = true
		return change{}
	}
	if err != nil {
		s.log.Warn("look for artifacts", "error", err)
		if context.Cause(ctx) != nil {
			t.c.drafts = append(t.c.drafts, r.out.notice(
				"\n[the interrupt ended the search for changed files; the next cell lists the files that this one changed]\n")...)
		}
		return change{}
	}
	if next.Truncated && len(changes) > 0 {
		t.c.drafts = append(t.c.drafts, r.out.notice("\n[not everything that this cell changed is listed: the workspace"+
			" has too many files, or its paths are too long or too deep; all of the files are still there]\n")...)
	}
	if len(changes) == 0 {
		return change{}
	}
	if takesLong(changes) {
		if t.flushBefore(); t.failed {
			return change{}
		}
	}
	s.mu.Lock()
	limit := s.limits.ArtifactBytes
	s.mu.Unlock()
	c := collector{s: s, r: r, hold: t.hold, toRead: limit, toInline: MaxInlineBytes}
	for _, ch := range changes {
		c.add(ctx, ch)
	}
	if t.ctx.Err() != nil { // the next server collects them
		t.failed = true
		return change{}
	}
	for _, notice := range c.notices() {
		t.c.drafts = append(t.c.drafts, r.out.notice(notice)...)
	}
	out := change{drafts: c.drafts}
	out.add(s.known.save(t.ctx, next, s.known.set(next)))
	return out
}

// endLook lets the cells of other sessions in the sandbox end. Until then they wait in collect.
func (t *translation) endLook() {
	if t.looked != nil {
		t.looked(!t.failed)
		t.looked = nil
	}
}

// collecting returns a context for the search for changed files and their copying: an interrupt and a delete end it.
func (s *Session) collecting(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopCopying = cancel
	if s.gone {
		cancel(errCollectionStopped)
	}
	return ctx, func() {
		s.mu.Lock()
		s.stopCopying = nil
		s.mu.Unlock()
		cancel(nil)
	}
}

// endCollecting gives up copying files. The caller holds s.mu.
func (s *Session) endCollecting() {
	if s.stopCopying != nil {
		s.stopCopying(errCollectionStopped)
	}
}

func takesLong(changes []workspace.Change) bool {
	var bytes int64
	for _, ch := range changes {
		bytes += ch.Entry.Size
	}
	return len(changes) > quickFiles || bytes > quickBytes
}

// add lists one change.
func (c *collector) add(ctx context.Context, ch workspace.Change) {
	cost := len(api.Text(ch.Path)) + listedCost
	if len(c.drafts) == maxArtifacts || len(ch.Path) > maxPath || c.listed+cost > maxListed {
		c.unlisted++
		return
	}
	event, err := c.keep(ctx, ch)
	switch {
	case errors.Is(err, fs.ErrNotExist): // deleted since the scan: it is not an artifact
		return
	case err != nil:
		if c.failed++; c.firstFail == nil {
			c.firstFail = err
		}
		return
	}
	c.listed += cost
	c.r.row.Artifacts = append(c.r.row.Artifacts, event.Artifact)
	c.drafts = append(c.drafts, draft{executionID: c.r.row.ID, body: event})
}

// keep stores the bytes of a changed file, or reports that there is no room for them.
func (c *collector) keep(ctx context.Context, ch workspace.Change) (api.ArtifactEvent, error) {
	event := api.ArtifactEvent{Artifact: api.Artifact{Path: ch.Path, Change: api.Change(ch.Kind)}}
	if ch.Kind == workspace.Deleted {
		return event, nil
	}
	f, entry, err := c.s.dir.Open(ch.Path)
	if err != nil {
		return event, err
	}
	defer f.Close()
	event.Size, event.MediaType = &entry.Size, files.MediaType(ch.Path, f)
	if entry.Size > c.toRead || c.s.m.spare() != nil || c.s.makeRoom(ctx, entry.Space) != nil {
		return c.omit(event), nil
	}
	c.toRead -= entry.Size
	blob, err := c.hold.Put(ctx, f)
	if errors.Is(err, errCollectionStopped) || hasCode(err, api.CodeDiskFull) {
		return c.omit(event), nil
	}
	if err != nil {
		return event, err
	}
	event.Size, event.SHA256, event.URL = &blob.Size, blob.SHA256, api.ArtifactURL(blob.SHA256)
	if blob.Size > min(c.s.m.cfg.InlineBytes, c.toInline) {
		return event, nil
	}
	c.toInline -= blob.Size
	if event.Data, err = c.s.m.blobs.read(blob.SHA256, blob.Size); err == nil && event.Data == nil {
		event.Data = []byte{}
	}
	return event, err
}

func (c *collector) omit(event api.ArtifactEvent) api.ArtifactEvent {
	c.omitted++
	event.Omitted = true
	return event
}

// notices tells the user what is not listed or not kept, and the operator what could not be read.
func (c *collector) notices() (list []string) {
	if c.unlisted > 0 {
		list = append(list, fmt.Sprintf("\n[%d more files were created, changed or deleted than the %d listed; the workspace has them all]\n",
			c.unlisted, len(c.drafts)))
	}
	if c.omitted > 0 {
		list = append(list, fmt.Sprintf("\n[%d changed files are listed without their contents: limits.artifact_bytes or the server's disk leaves no room"+
			" for them, or an interrupt ended the copying; the files are in the workspace]\n", c.omitted))
	}
	if c.failed > 0 {
		c.s.log.Warn("keep artifacts", "files", c.failed, "first", c.firstFail)
		list = append(list, fmt.Sprintf("\n[%d changed files could not be read and are not listed; they are still in the workspace]\n", c.failed))
	}
	return list
}
