package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"

	"github.com/spf13/cobra"

	"talaria/api"
	"talaria/client/zmqkernel"
)

func jupyterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "jupyter",
		Short: "Install a kernel for the Jupyter clients on this machine",
		Args:  arguments(0, 0),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	addConnection(cmd)
	cmd.AddCommand(jupyterInstallCommand(), jupyterKernelCommand())
	return cmd
}

// kernelFlags are those of the kernel, which its specification repeats.
var kernelFlags = []string{"session", "environment"}

func addKernelFlags(cmd *cobra.Command) {
	cmd.Flags().StringP("session", "s", "", "session to use, which is kept when the client ends (default: a new one for each kernel, deleted with it)")
	cmd.Flags().String("environment", "", "environment of sessions that are created (default: the server's)")
}

// kernelNames are those that Jupyter accepts.
var kernelNames = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

func jupyterInstallCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install a kernel specification that runs cells on a Talaria server",
		Long: `Install a kernel specification for Jupyter clients on this machine, such as jupyter console, nbconvert or JupyterLab.

Their cells then run in sessions of the server that uses the state directory, or of the one given with --server. The
token is not stored: the kernel reads it from TALARIA_TOKEN, or else from the state directory.
To remove it, run jupyter kernelspec remove NAME.`,
		Example: `  talaria jupyter install
  jupyter console --kernel talaria
  talaria jupyter install --name work --display-name Work --session work`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return installKernel(cmd) },
	}
	addKernelFlags(cmd)
	cmd.Flags().String("name", "talaria", "name of the kernel, as in jupyter console --kernel NAME")
	cmd.Flags().String("display-name", "Python (Talaria)", "name that clients show")
	cmd.Flags().Bool("json", false, "print JSON")
	cmd.Flags().String("prefix", "", "install into share/jupyter/kernels below this directory (default: for this user)")
	return cmd
}

// kernelSpec is a kernel.json, see https://jupyter-client.readthedocs.io/en/stable/kernels.html#kernel-specs.
type kernelSpec struct {
	Argv          []string       `json:"argv"`
	DisplayName   string         `json:"display_name"`
	Language      string         `json:"language"`
	InterruptMode string         `json:"interrupt_mode"`
	Metadata      map[string]any `json:"metadata"`
}

func installKernel(cmd *cobra.Command) error {
	name, _ := cmd.Flags().GetString("name")
	label, _ := cmd.Flags().GetString("display-name")
	switch {
	case !kernelNames.MatchString(name):
		return usagef("--name may contain only letters, digits and .-_, not %q", name)
	case flagOf(cmd, "token") != "":
		return usagef("--token would be stored where others can read it: set TALARIA_TOKEN where the clients run")
	}
	if err := checkKernelSession(cmd); err != nil {
		return err
	}
	own, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := stateDir(cmd)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return err
	}
	argv := []string{own, "jupyter", "kernel", "--connection-file", "{connection_file}"}
	if server := flagOf(cmd, "server"); server != "" {
		argv = append(argv, "--server", server)
	}
	argv = append(argv, "--state-dir", dir)
	for _, flag := range kernelFlags {
		if value := flagOf(cmd, flag); value != "" {
			argv = append(argv, "--"+flag, value)
		}
	}
	spec, err := json.MarshalIndent(kernelSpec{Argv: argv, DisplayName: label, Language: "python", InterruptMode: "message",
		Metadata: map[string]any{"debugger": false}}, "", "  ")
	if err != nil {
		return err
	}
	folder, err := kernelFolder(flagOf(cmd, "prefix"), name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	path := filepath.Join(folder, "kernel.json")
	if err := os.WriteFile(path, append(spec, '\n'), 0o644); err != nil {
		return err
	}
	if asJSON, _ := cmd.Flags().GetBool("json"); asJSON {
		return printJSON(cmd.OutOrStdout(), map[string]string{"name": name, "path": path})
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s\n", path)
	fmt.Fprintf(cmd.ErrOrStderr(), "installed; try: jupyter console --kernel %s\n", name)
	return nil
}

// kernelFolder is where the specification of a kernel belongs. Without a prefix, it is the user's.
func kernelFolder(prefix, name string) (string, error) {
	data := os.Getenv("JUPYTER_DATA_DIR")
	if prefix != "" {
		data = filepath.Join(prefix, "share", "jupyter")
	} else if data == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("%w; pass --prefix", err)
		}
		if data = os.Getenv("XDG_DATA_HOME"); data == "" {
			data = filepath.Join(home, ".local", "share")
		}
		data = filepath.Join(data, "jupyter")
	}
	return filepath.Join(data, "kernels", name), nil
}

func checkKernelSession(cmd *cobra.Command) error {
	if id := flagOf(cmd, "session"); id != "" && !api.ValidID(id) {
		return usagef("--session must be a session's id, not %q", id)
	}
	return nil
}

func jupyterKernelCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kernel",
		Short: "Serve one Jupyter client as a kernel; clients start it themselves",
		Long: `Serve the ZeroMQ sockets of a Jupyter kernel, and run its cells in a session. Jupyter clients start this command themselves,
once talaria jupyter install has installed it as a kernel.`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return serveKernel(cmd) },
	}
	addKernelFlags(cmd)
	cmd.Flags().StringP("connection-file", "f", "", "the client's file that says where to listen (required)")
	return cmd
}

func serveKernel(cmd *cobra.Command) error {
	path := flagOf(cmd, "connection-file")
	if path == "" {
		return usagef("--connection-file is missing: Jupyter clients start this command; %s jupyter install makes it known to them", program)
	}
	if err := checkKernelSession(cmd); err != nil {
		return err
	}
	connection, err := zmqkernel.ReadConnection(path)
	if err != nil {
		return usageError{err.Error()}
	}
	c, err := connect(cmd)
	if err != nil {
		return err
	}
	session, lasts := flagOf(cmd, "session"), true
	if session == "" {
		session, lasts = sessionOfConnection(path, connection), false
	}
	if err := ensureKernelSession(cmd, c, session); err != nil {
		return reached(c.url, err)
	}
	return zmqkernel.Run(cmd.Context(), zmqkernel.Config{
		Connection: connection, Session: session, Delete: !lasts, Log: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)),
		Find: func() (zmqkernel.Server, error) {
			c, err := connect(cmd) // the next server may have another address
			if err != nil {
				return zmqkernel.Server{}, err
			}
			return zmqkernel.Server{URL: c.url, Token: c.token}, nil
		},
	})
}

// ensureKernelSession creates the session if it does not exist, which a token for one session may not do.
func ensureKernelSession(cmd *cobra.Command, c *connection, id string) error {
	missing := new(api.Error)
	if _, err := c.Session(cmd.Context(), id); !errors.As(err, &missing) || missing.Code != api.CodeSessionNotFound {
		return err
	}
	label := "Jupyter kernel"
	req := api.SessionRequest{Name: &label}
	if environment := flagOf(cmd, "environment"); environment != "" {
		req.Environment = &environment
	}
	_, _, err := c.EnsureSession(cmd.Context(), id, req, api.IfExistsKeep)
	return err
}

// sessionOfConnection names the session of a kernel. A client that restarts its kernel starts this program again with the same
// file, and finds its files.
func sessionOfConnection(path string, c zmqkernel.Connection) string {
	sum := sha256.Sum256([]byte(c.Key + "\x00" + path))
	return "jupyter-" + hex.EncodeToString(sum[:10])
}
