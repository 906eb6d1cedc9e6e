package sandbox

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// makeScratch makes the directory for a sandbox's temporary files and home, or returns "" if these are in a tmpfs. Its
// contents will belong to the session's user; the directory itself does not.
func (b *Backend) makeScratch() (string, error) {
	if b.tier.Contained() {
		return "", nil
	}
	dir, err := b.makeOwnDir()
	if err != nil {
		return "", fmt.Errorf("make scratch directory: %w", err)
	}
	return dir, nil
}

// Scratch implements [kernel.Scratcher].
func (s *Sandbox) Scratch() string { return s.scratch }

// giveScratch returns its location in a form that pid 1 can check; nil if there is none.
func (s *Sandbox) giveScratch() (*directory, error) {
	if s.scratch == "" {
		return nil, nil
	}
	opened, err := os.OpenFile(s.scratch, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	dir, err := s.beneathRoot(opened)
	return &dir, err
}

// removeScratch removes it, with everything that user code has put into it.
func (s *Sandbox) removeScratch() error {
	if s.scratch == "" {
		return nil
	}
	return s.backend.removeOwnDir(s.scratch)
}
