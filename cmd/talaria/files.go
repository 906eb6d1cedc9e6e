package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"talaria/api"
)

func filesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "files", Short: "List, download, upload and delete a session's files", Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Example: `  talaria files ls work
  talaria files put work sales.csv data/
  talaria files get work report.pdf
  talaria files get work log.txt - | tail`,
	}
	cmd.PersistentFlags().Bool("json", false, "print JSON")
	addConnection(cmd)
	cmd.AddCommand(
		&cobra.Command{Use: "ls SESSION [FOLDER]", Aliases: []string{"list"}, Short: "List a folder", Args: arguments(1, 2), RunE: withServer(listFiles)},
		&cobra.Command{Use: "get SESSION PATH [LOCAL|-]", Short: "Download a file; - prints it", Args: arguments(2, 3), RunE: withServer(getFile)},
		&cobra.Command{Use: "put SESSION LOCAL|- [PATH]", Short: "Upload a file; - reads standard input", Args: arguments(2, 3), RunE: withServer(putFile)},
		&cobra.Command{Use: "rm SESSION PATH...", Aliases: []string{"delete"}, Short: "Delete files and folders", Args: arguments(2, -1), RunE: withServer(deleteFiles)})
	return cmd
}

func listFiles(cmd *cobra.Command, c *connection, args []string) error {
	folder := ""
	if len(args) > 1 {
		folder = args[1]
	}
	list, err := c.Files(cmd.Context(), args[0], folder)
	switch {
	case err != nil:
		return err
	case asJSON(cmd):
		return printJSON(cmd.OutOrStdout(), append([]api.File{}, list...))
	}
	t := newTable(cmd.OutOrStdout(), "NAME", "SIZE", "MODIFIED")
	for _, f := range list {
		name, bytes := f.Name, size(f.Size)
		if f.Kind == "directory" {
			name, bytes = name+"/", "-"
		}
		t.row(name, bytes, f.ModifiedAt.Format("2006-01-02 15:04:05"))
	}
	return t.flush()
}

func getFile(cmd *cobra.Command, c *connection, args []string) error {
	local := path.Base(args[1])
	if len(args) > 2 {
		local = args[2]
	}
	d, err := c.GetFile(cmd.Context(), args[0], args[1])
	if err != nil {
		return err
	}
	defer d.Close()
	if local == "-" {
		_, err := io.Copy(cmd.OutOrStdout(), d)
		return err
	}
	local = inFolder(local, path.Base(args[1]))
	n, err := download(local, d)
	if err != nil {
		return err
	}
	return printSaved(cmd, local, n)
}

// printSaved says where a file was saved, and how long it is.
func printSaved(cmd *cobra.Command, path string, bytes int64) error {
	if asJSON(cmd) {
		return printJSON(cmd.OutOrStdout(), map[string]any{"path": path, "bytes": bytes})
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "saved %s (%s)\n", quoted(path), size(bytes))
	return err
}

// inFolder is where to save a file: below local if that is a folder, else there.
func inFolder(local, name string) string {
	if info, err := os.Stat(local); err == nil && info.IsDir() {
		return filepath.Join(local, name)
	}
	return local
}

// download writes a file in one step: a connection that breaks leaves nothing, or what was there. What is no regular file, such as
// a device or a pipe, is written into.
func download(local string, from io.Reader) (n int64, err error) {
	target, err := filepath.EvalSymlinks(local)
	if err != nil {
		target = local
	}
	info, missing := os.Lstat(target)
	if missing == nil && !info.Mode().IsRegular() { // a link here has no target, and gets one
		into, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE, 0o666)
		if err != nil {
			return 0, err
		}
		return copyAll(local, into, from)
	}
	name := filepath.Join(filepath.Dir(target), ".talaria-"+rand.Text())
	temp, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666) // as the umask has it
	if err != nil {
		return 0, fmt.Errorf("save %s: %w", quoted(local), withoutPath(err))
	}
	defer os.Remove(name)
	if missing == nil {
		if err := temp.Chmod(info.Mode().Perm()); err != nil {
			return 0, errors.Join(err, temp.Close())
		}
	}
	if n, err = copyAll(local, temp, from); err != nil {
		return n, err
	}
	return n, os.Rename(name, target)
}

// copyAll writes what comes from a reader to a file, and closes it.
func copyAll(local string, to *os.File, from io.Reader) (n int64, err error) {
	n, err = io.Copy(to, from)
	if err = errors.Join(err, to.Close()); err != nil {
		return n, fmt.Errorf("save %s: %w", quoted(local), err)
	}
	return n, nil
}

func putFile(cmd *cobra.Command, c *connection, args []string) error {
	from, name := cmd.InOrStdin(), ""
	if args[1] != "-" {
		file, err := os.Open(args[1])
		if err != nil {
			return usagef("%v", err)
		}
		defer file.Close()
		if info, err := file.Stat(); err == nil && info.IsDir() {
			return usagef("%s is a folder; upload its files one by one", quoted(args[1]))
		}
		from, name = file, filepath.Base(args[1])
	}
	if len(args) > 2 {
		if name = args[2]; strings.HasSuffix(name, "/") {
			name += filepath.Base(args[1])
		}
	}
	if name == "" {
		return usagef("name the file in the session: %s files put %s - PATH", program, args[0])
	}
	f, created, err := c.PutFile(cmd.Context(), args[0], name, source{from, args[1]})
	if err != nil {
		return err
	}
	if asJSON(cmd) {
		return printJSON(cmd.OutOrStdout(), f)
	}
	did := "replaced"
	if created {
		did = "created"
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s %s (%s)\n", did, quoted(f.Path), size(f.Size))
	return nil
}

// source is a file that is uploaded. Its errors are told from those of the connection.
type source struct {
	io.Reader
	name string
}

func (s source) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if err != nil && err != io.EOF {
		err = localError{fmt.Sprintf("read %s: %v", quoted(s.name), withoutPath(err)), err}
	}
	return n, err
}

func deleteFiles(cmd *cobra.Command, c *connection, args []string) (err error) {
	deleted := []string{}
	for _, name := range args[1:] {
		if err = c.DeleteFile(cmd.Context(), args[0], name); err != nil {
			err = fmt.Errorf("%s: %w", quoted(name), err)
			break
		}
		if deleted = append(deleted, name); !asJSON(cmd) {
			fmt.Fprintf(cmd.OutOrStdout(), "deleted %s\n", quoted(name))
		}
	}
	if asJSON(cmd) {
		return errors.Join(err, printJSON(cmd.OutOrStdout(), map[string][]string{"deleted": deleted}))
	}
	return err
}
