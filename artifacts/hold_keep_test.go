package artifacts_test

import (
	"testing"

	"talaria/artifacts"
)

// A blob that somebody keeps is not removed although nothing refers to it.
func TestAKeptBlobStaysUntilTheRelease(t *testing.T) {
	s, err := artifacts.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	blob, err := s.PutBytes(t.Context(), []byte("contents"))
	if err != nil {
		t.Fatal(err)
	}
	hold := s.Hold()
	defer hold.Release()
	if there, err := hold.Keep(blob.SHA256); !there || err != nil {
		t.Fatalf("%v, %v", there, err)
	}
	unused := func() (bool, error) { return false, nil }
	if err := s.DeleteUnless(blob.SHA256, unused); err != nil || s.Size(blob.SHA256) < 0 {
		t.Errorf("a kept blob is gone (%v)", err)
	}
	hold.Release()
	if err := s.DeleteUnless(blob.SHA256, unused); err != nil || s.Size(blob.SHA256) >= 0 {
		t.Errorf("after the release the blob is there (%v)", err)
	}
	if there, err := hold.Keep(blob.SHA256); there || err != nil {
		t.Errorf("a blob that is gone is kept: %v, %v", there, err)
	}
	if _, err := hold.Keep("../x"); err == nil {
		t.Error("what is no digest is kept")
	}
}
