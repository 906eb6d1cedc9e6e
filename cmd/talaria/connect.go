package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"talaria/client"
)

// addConnection gives a command the flags that say which server it talks to.
func addConnection(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.String("server", "", "URL of the server (default: $TALARIA_URL, else the one of the state directory)")
	f.String("token", "", "token (default: $TALARIA_TOKEN, else the first owner's)")
}

// connect makes the client that the flags, the environment or the state directory describe.
func connect(cmd *cobra.Command) (*client.Client, error) {
	dir := first(flagOf(cmd, "state-dir"), os.Getenv("TALARIA_STATE_DIR"), defaultStateDir())
	url, err := given(flagOf(cmd, "server"), "TALARIA_URL", filepath.Join(dir, "url"))
	if err != nil {
		return nil, fmt.Errorf("no server is known: %w; start one with talaria serve, or give --server", err)
	}
	token, err := given(flagOf(cmd, "token"), "TALARIA_TOKEN", filepath.Join(dir, "token"))
	if err != nil {
		return nil, fmt.Errorf("no token is known: %w; give --token", err)
	}
	return client.New(url, token), nil
}

// given is the flag, the variable or the file's text, the first that there is.
func given(flag, variable, path string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	if v := os.Getenv(variable); variable != "" && v != "" {
		return v, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		var why *os.PathError
		if errors.As(err, &why) {
			return "", fmt.Errorf("%s: %w", path, why.Err)
		}
		return "", err
	}
	return strings.TrimSpace(string(b)), nil
}
