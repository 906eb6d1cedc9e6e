package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"talaria/client"
	"talaria/store"
)

// addConnection gives a command the flags that say which server it talks to.
func addConnection(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.String("server", "", "URL of the server (default: $TALARIA_URL, else the server that uses the state directory)")
	f.String("token", "", "token (default: $TALARIA_TOKEN, else the first owner's)")
}

// connection is a client of a server with its address.
type connection struct {
	*client.Client
	url   string
	token string
}

// connect makes the client that the flags, the environment or the state directory describe.
func connect(cmd *cobra.Command) (*connection, error) {
	address, err := fromServer(cmd, flagOf(cmd, "server"), "TALARIA_URL", runningAt)
	if err != nil {
		return nil, unknown("no running server found", err, "start one with "+program+" serve, or pass --server")
	}
	if u, err := url.Parse(address); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, usagef("the server's address must be a URL such as http://127.0.0.1:8765, not %q", address)
	}
	token, err := fromServer(cmd, flagOf(cmd, "token"), "TALARIA_TOKEN", firstOwnersToken)
	if err != nil {
		return nil, unknown("no token found", err, "pass --token")
	}
	return &connection{client.New(address, token), strings.TrimRight(address, "/"), token}, nil
}

// runningAt is the address of the server that has a state directory open. One that a killed server left there is no address to
// send a token to: another program may listen on it.
func runningAt(dir string) (string, error) {
	address, err := given("", "", filepath.Join(dir, "url"))
	if err != nil {
		return "", err
	}
	if inUse, err := store.InUse(dir); err != nil || inUse {
		return address, err
	}
	return "", fmt.Errorf("the server of %s has ended", dir)
}

// unknown says that a file of the state directory does not tell what a command needs.
func unknown(what string, err error, remedy string) error {
	if errors.Is(err, os.ErrPermission) {
		remedy = "run this as the server's user, or pass --server and --token"
	}
	return unreachableError{fmt.Sprintf("%s (%v); %s", what, err, remedy), err}
}

// withServer is a command that calls the server.
func withServer(run func(cmd *cobra.Command, c *connection, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := connect(cmd)
		if err != nil {
			return err
		}
		return reached(c.url, run(cmd, c, args))
	}
}

// fromServer is the flag, the variable or what the server keeps in its state directory, the first that there is. The directory is
// looked for only if it is needed: a client of another machine's server may have none.
func fromServer(cmd *cobra.Command, flag, variable string, read func(dir string) (string, error)) (string, error) {
	if v := first(flag, os.Getenv(variable)); v != "" {
		return v, nil
	}
	dir, err := stateDir(cmd)
	if err != nil {
		return "", err
	}
	return read(dir)
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
