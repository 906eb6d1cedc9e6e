package session_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"talaria/api"
	"talaria/artifacts"
)

// The blobs of a checkpoint that was dropped may be gone, so the next checkpoint reads the files again.
func TestACheckpointAfterOneThatWasDroppedHasItsFiles(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{})
	wait(t, s, submit(t, s, "print x"))
	if _, _, err := s.Files().Put(t.Context(), "f", strings.NewReader("contents")); err != nil {
		t.Fatal(err)
	}
	take := func() api.Checkpoint {
		t.Helper()
		made, err := s.Checkpoint(t.Context(), api.CheckpointRequest{Level: new(api.CheckpointFiles)})
		if err != nil || len(made.NotSaved) > 0 {
			t.Fatalf("%+v, %v", made, err)
		}
		return made
	}
	first := take()
	if err := s.DropCheckpoint(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	blobs, digest := r.blobs(), digestOf("contents")
	err := blobs.DeleteUnless(digest, func() (bool, error) { return r.db.Referenced(t.Context(), digest) }) // as the sweep does
	if err != nil || blobs.Size(digest) >= 0 {
		t.Fatalf("the blob is there: %v, %v", blobs.Size(digest) >= 0, err)
	}
	second := take()
	if err := s.Files().Delete(t.Context(), "f"); err != nil {
		t.Fatal(err)
	}
	done, err := s.Rollback(t.Context(), api.RollbackRequest{CheckpointID: &second.ID, What: new(api.RollbackFiles)})
	if err != nil || len(done.NotRestored) > 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	f, _, err := s.Files().Open(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if b, err := io.ReadAll(f); err != nil || string(b) != "contents" {
		t.Errorf("the file has %q, %v", b, err)
	}
}

// blobs returns the server's artifacts.
func (r *rig) blobs() *artifacts.Store {
	r.t.Helper()
	blobs, err := artifacts.Open(filepath.Join(r.dir, "artifacts"))
	if err != nil {
		r.t.Fatal(err)
	}
	return blobs
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Files that cells write again and again would fill the disk otherwise.
func TestWhatOnlyADroppedCheckpointNeededIsRemoved(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{Checkpoints: &api.CheckpointsRequest{Keep: new(int64(2))}})
	wait(t, s, submit(t, s, "print x"))
	var made []string
	for _, version := range []string{"one", "two", "three"} {
		for name, text := range map[string]string{"changes": version, "stays": "the same"} {
			if _, _, err := s.Files().Put(t.Context(), name, strings.NewReader(text)); err != nil {
				t.Fatal(err)
			}
		}
		c, err := s.Checkpoint(t.Context(), api.CheckpointRequest{Level: new(api.CheckpointFiles)})
		if err != nil || len(c.NotSaved) > 0 {
			t.Fatalf("%+v, %v", c, err)
		}
		made = append(made, c.ID)
	}
	blobs := r.blobs()
	eventually(t, func() bool { return blobs.Size(digestOf("one")) < 0 }) // the first one was one too many
	if err := s.DropCheckpoint(t.Context(), made[2]); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return blobs.Size(digestOf("three")) < 0 })
	for _, text := range []string{"two", "the same"} {
		if blobs.Size(digestOf(text)) < 0 {
			t.Errorf("%q is gone, which a checkpoint needs", text)
		}
	}
}

func TestTheFilesOfAForkAreNotStoredTwiceForLong(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{})
	wait(t, s, submit(t, s, "print x"))
	idle, drop := 0.01, api.OnIdleDrop
	if err := s.Update(t.Context(), api.SessionPatch{IdleTimeoutS: &idle, OnIdle: &drop}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return s.Info(t.Context()).State == api.StateDead })
	if _, _, err := s.Files().Put(t.Context(), "f", strings.NewReader("contents")); err != nil {
		t.Fatal(err)
	}
	made, err := s.Fork(t.Context(), api.ForkRequest{})
	if err != nil || len(made.Items) != 1 || made.Items[0].Session == nil {
		t.Fatalf("%+v, %v", made, err)
	}
	blobs := r.blobs()
	eventually(t, func() bool { return blobs.Size(digestOf("contents")) < 0 })
	f, _, err := r.find(made.Items[0].Session.ID).Files().Open(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

// Holes take no space, but time: without a bound, a cell could keep the server reading zeros for hours.
func TestACheckpointReadsABoundedNumberOfZeros(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{Limits: &api.LimitsRequest{DiskBytes: new(int64(1 << 20)), ArtifactBytes: new(int64(1 << 20))}})
	wait(t, s, submit(t, s, "print x"))
	dirs, err := filepath.Glob(filepath.Join(r.dir, "sessions", "*", "workspace"))
	if err != nil || len(dirs) != 1 {
		t.Fatal(dirs, err)
	}
	for _, name := range []string{"a", "b"} { // together more than the limits
		if _, _, err := s.Files().Put(t.Context(), name, strings.NewReader("")); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(filepath.Join(dirs[0], name), 600<<10); err != nil {
			t.Fatal(err)
		}
	}
	made, err := s.Checkpoint(t.Context(), api.CheckpointRequest{Level: new(api.CheckpointFiles)})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		if err := s.Files().Delete(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	done, err := s.Rollback(t.Context(), api.RollbackRequest{CheckpointID: &made.ID, What: new(api.RollbackFiles)})
	if err != nil || len(done.NotRestored) != 1 || done.NotRestored[0].Name != "b" || !strings.Contains(done.NotRestored[0].Reason, "holes included") {
		t.Fatalf("%+v, %v", done, err)
	}
	f, e, err := s.Files().Open(t.Context(), "a")
	if err != nil || e.Size != 600<<10 {
		t.Fatalf("%+v, %v", e, err)
	}
	f.Close()
}
