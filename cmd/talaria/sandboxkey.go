package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// keepSandboxKey returns the key that makes the tokens of single sandboxes, from the state directory, and creates it at the
// first start. With another key, all tokens of sandboxes end; their clients connect again with the owner's.
func keepSandboxKey(stateDir string) ([]byte, error) {
	path := filepath.Join(stateDir, "sandbox-key")
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		key := make([]byte, 32)
		rand.Read(key) // never fails
		return key, writePrivate(path, hex.EncodeToString(key))
	}
	if err != nil {
		return nil, fmt.Errorf("read the key of the sandboxes' tokens: %w", err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) < 32 {
		return nil, fmt.Errorf("%s is damaged; delete it, and the server creates another one", path)
	}
	return key, nil
}
