package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

const jupyterName = "Jupyter Server"

const jupyterHint = "on Debian: apt-get install jupyter-server python3-ipykernel python3-numpy python3-pandas " +
	"python3-matplotlib; elsewhere pip install jupyter-server ipykernel numpy pandas matplotlib; or name it with -jupyter"

// jupyter starts Jupyter Servers with ipykernel.
type jupyter struct {
	command []string
	temp    string
	as      account
}

// newJupyter finds a Jupyter Server: the given command, or the first that answers of those that are usual.
func newJupyter(ctx context.Context, given, temp string, as account) (*jupyter, error) {
	candidates := [][]string{
		{"jupyter-server"}, {"python3", "-m", "jupyter_server"}, {"/usr/bin/python3", "-m", "jupyter_server"},
	}
	if given != "" {
		candidates = [][]string{strings.Fields(given)}
	}
	for _, c := range candidates {
		if exec.CommandContext(ctx, c[0], append(c[1:], "--version")...).Run() == nil {
			return &jupyter{c, temp, as}, nil
		}
	}
	return nil, fmt.Errorf("%s is %w; %s", jupyterName, errNotInstalled, jupyterHint)
}

func (d *jupyter) name() string { return jupyterName }

func (d *jupyter) start(ctx context.Context, f flavour) (server, error) {
	root, err := os.MkdirTemp(d.temp, "jupyter-")
	if err == nil {
		err = os.Chmod(root, 0o755)
	}
	if err != nil {
		return nil, err
	}
	s := &jupyterServer{driver: d, flavour: f, root: root, token: rand.Text(),
		http: &http.Client{Transport: &http.Transport{}}}
	for name, path := range map[string]*string{"home": &s.home, "files": &s.files} {
		if *path, err = d.as.folder(root, name); err != nil {
			return nil, err
		}
	}
	if err := s.restart(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// jupyterServer is a Jupyter Server with a home and a root folder of its own.
type jupyterServer struct {
	driver            *jupyter
	flavour           flavour
	root, home, files string
	token             string
	http              *http.Client
	program           *program
	url               string // of the present start
}

var jupyterURL = regexp.MustCompile(`http://127\.0\.0\.1:\d+/`)

// restart starts the server, and returns when it answers and its Python kernel is known.
func (s *jupyterServer) restart(ctx context.Context) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	args := append(slices.Clone(s.driver.command), "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1",
		"--ServerApp.port="+port, "--ServerApp.port_retries=0", "--ServerApp.root_dir="+s.files)
	if s.flavour.noLimits {
		args = append(args, "--ServerApp.iopub_data_rate_limit=0", "--ServerApp.iopub_msg_rate_limit=0")
	}
	s.program, s.url, err = launch(ctx, command{
		args: args,
		env:  []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.home, "JUPYTER_TOKEN=" + s.token},
		dir:  s.files,
		as:   s.driver.as.credential,
		ready: func(line string) (string, bool) {
			url := jupyterURL.FindString(line)
			return strings.TrimSuffix(url, "/"), url != ""
		},
	})
	if err != nil {
		return err
	}
	var specs struct {
		Kernels map[string]any `json:"kernelspecs"`
	}
	if err := s.call(ctx, http.MethodGet, "/api/kernelspecs", nil, &specs); err != nil {
		return err
	}
	if specs.Kernels["python3"] == nil {
		return fmt.Errorf("ipykernel is %w; %s", errNotInstalled, jupyterHint)
	}
	return nil
}

// freePort is a port that nobody listens on at present.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}

func (s *jupyterServer) about(ctx context.Context) (string, error) {
	var answer struct {
		Version string `json:"version"`
	}
	err := s.call(ctx, http.MethodGet, "/api", nil, &answer)
	return "Jupyter Server " + answer.Version + " with ipykernel", err
}

func (s *jupyterServer) settle(context.Context) error { return nil }

func (s *jupyterServer) create(ctx context.Context) (session, error) {
	var kernel struct {
		ID string `json:"id"`
	}
	err := s.call(ctx, http.MethodPost, "/api/kernels", map[string]string{"name": "python3"}, &kernel)
	return &jupyterSession{s, kernel.ID}, err
}

func (s *jupyterServer) own() []process {
	p, _, err := readProcess(s.program.cmd.Process.Pid)
	if err != nil {
		return nil
	}
	return []process{p}
}

func (s *jupyterServer) kill() error {
	s.program.kill()
	return nil
}

// close ends the server. Kernels that it lost sight of are killed.
func (s *jupyterServer) close() error {
	var err error
	if s.program != nil {
		err = s.program.end(syscall.SIGTERM)
	}
	killAll(descendants(os.Getpid()))
	s.http.CloseIdleConnections()
	return errors.Join(err, os.RemoveAll(s.root))
}

// call makes one call of the REST API and decodes the answer into out, unless that is nil.
func (s *jupyterServer) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	resp, err := s.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && out != nil {
		err = json.Unmarshal(answer, out)
	}
	if err != nil {
		return fmt.Errorf("read the answer to %s %s: %w", method, path, err)
	}
	return nil
}

// send returns the response of a status below 400; the caller closes its body.
func (s *jupyterServer) send(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "token "+s.token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return succeed(s.http, req)
}

// succeed makes a request whose answer must have a status below 400; the caller closes its body.
func succeed(by *http.Client, req *http.Request) (*http.Response, error) {
	resp, err := by.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 400 {
		defer resp.Body.Close()
		detail, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
		return nil, fmt.Errorf("%s %s: %s: %s", req.Method, req.URL.Path, resp.Status, detail)
	}
	return resp, nil
}
