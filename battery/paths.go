package battery

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"mime/multipart"
	"net/url"
	"slices"
	"strings"

	"talaria/api"
)

// paths are attempts to make the server touch files outside the session, by names and by what is planted under them.
var paths = []Check{
	requests("paths/dot-dot", api.CodePathOutside, "..", "../x", "a/../../x", "a/../b", "./a", "a/.",
		"../../../../OUTSIDE/secret"),
	requests("paths/dot-dot-escaped", api.CodePathOutside, "%2e%2e", "%2e%2e/x", "a/%2e%2e/%2e%2e/x",
		"%2E%2E%2Fx", "..%2f..%2fx", "a%2f..%2f..%2fx"),
	requests("paths/dot-dot-escaped-twice", api.CodeFileNotFound, "%252e%252e%252fx", "%252e%252e/x"),
	requests("paths/absolute", api.CodePathOutside, "/etc/passwd", "%2fetc%2fpasswd", "//etc/passwd",
		"%2F%2Fetc/passwd", "%2FOUTSIDE%2Fsecret"),
	requests("paths/backslash", api.CodeFileNotFound, "..%5cx", "..%5c..%5cetc%5cpasswd", "%5cetc%5cpasswd", "C:%5cx"),
	requests("paths/zero-byte", api.CodePathOutside, "%00", "a%00", "a%00.txt", "..%00/x"),
	requests("paths/empty", api.CodePathOutside, "a//b", "a/", "%2f"),
	requests("paths/invalid-text", api.CodeFileNotFound, "%ff%fe", "a%c0%ae%c0%ae/x"),
	planted("paths/link-to-file", `os.symlink("OUTSIDE/secret", "bad")`, "bad"),
	planted("paths/link-to-folder", `os.symlink("OUTSIDE", "bad")`, "bad/secret", "bad"),
	planted("paths/link-to-root", `os.symlink("/", "bad")`, "badOUTSIDE/secret", "bad/etc/passwd", "bad"),
	planted("paths/link-to-proc", `os.symlink("/proc/self/root", "bad")`, "badOUTSIDE/secret", "bad/etc/passwd"),
	planted("paths/link-to-descriptors", `os.symlink("/proc/self/fd", "bad")`, "bad/0", "bad/1", "bad/3"),
	planted("paths/link-upwards", `os.symlink("../../..", "bad")`, "bad/etc/passwd", "bad"),
	planted("paths/link-to-sibling", `open("real", "w").write("x"); os.symlink("real", "bad")`, "bad"),
	planted("paths/link-in-a-folder", `os.makedirs("bad/b"); os.symlink("OUTSIDE", "bad/b/c")`, "bad/b/c/secret",
		"bad/b/c"),
	{Name: "paths/link-deleted-itself", Quick: true, Cell: `os.makedirs("keep"); open("keep/x", "w").write("x"); os.symlink("keep", "bad")`,
		Judge: all(judgeDeleted("/files/bad"), func(t *Trial) error {
			saw, err := t.See(t.Session, `say(left=[os.path.lexists("bad"), os.path.exists("keep/x")])
import shutil; shutil.rmtree("keep")`)
			if err == nil && fmt.Sprint(saw["left"]) != "[false true]" {
				err = fmt.Errorf("the link and the file behind it are there: %v", saw["left"])
			}
			return err
		})},
	{Name: "paths/pipe", Quick: true, Cell: `os.mkfifo("bad")`, Judge: special("bad")},
	{Name: "paths/socket", Quick: true, Cell: `os.mknod("bad", stat.S_IFSOCK | 0o600)`,
		Judge: special("bad")},
	{Name: "paths/folder-as-file", Quick: true, Cell: `os.mkdir("bad")`, Judge: special("bad")},
	{Name: "paths/lease", Quick: true, Cell: `
import fcntl
open("bad", "w").write("x")
fd = os.open("bad", os.O_RDWR)
handler = signal.signal(signal.SIGIO, signal.SIG_IGN) # which tells that the lease is to be given up
say(saw=attempt(fcntl.fcntl, fd, fcntl.F_SETLEASE, fcntl.F_WRLCK))`, Judge: func(t *Trial) error {
		a, err := t.Send("GET", "/files/bad", "")
		if err == nil && a.Status != 403 && a.Status != 200 { // 200 if no lease can be had
			err = fmt.Errorf("a file with a lease: %d %s", a.Status, a.Body)
		}
		_, wrong := t.See(t.Session, `os.close(fd); os.unlink("bad"); signal.signal(signal.SIGIO, handler); say(saw="gone")`)
		if err == nil {
			err = wrong
		}
		return err
	}},
	{Name: "paths/sparse-download", Quick: true, Cell: `
fd = os.open("sparse", os.O_CREAT | os.O_RDWR)
say(huge=attempt(os.ftruncate, fd, 1 << 40), size=attempt(os.ftruncate, fd, 60 << 20))
os.close(fd)`, Judge: all(saw("huge", "EFBIG"), func(t *Trial) error {
		a, err := t.Send("GET", "/files/sparse", "")
		if err == nil && (a.Status != 200 || len(a.Body) != bodyLimit) {
			err = fmt.Errorf("a sparse file: %d with %d bytes", a.Status, len(a.Body))
		}
		return err
	}, judgeDeleted("/files/sparse"))},
	{Name: "paths/growing-download", Alone: true, Judge: judgeGrowing},
	{Name: "paths/swapped-link", Alone: true, Judge: judgeSwap},
	{Name: "paths/swapped-folder", Alone: true, Judge: judgeSwapFolder},
	{Name: "paths/name-in-header", Quick: true, Cell: `
names = ["new\nline", "ret\rurn", "esc\x1b[31m", "right\u202eleft", "quo\"te", "semi;colon", "back\\slash", "x: y\r\n\r\nz", "per%0d%0acent"]
for name in names: open(name, "w").write("x")
say(names=names)`, Judge: judgeNames},
	{Name: "paths/name-not-text", Quick: true, Cell: `
open(b"\xff\xfe\xc3", "w").write("x")
say(saw="made")`, Judge: all(saw("saw", "made"), (*Trial).listsFiles, func(t *Trial) error {
		if _, err := t.Send("GET", "/files/%ff%fe%c3", ""); err != nil {
			return err
		}
		_, err := t.See(t.Session, `os.unlink(b"\xff\xfe\xc3"); say(saw="gone")`)
		return err
	})},
	page("paths/html", "page.html", "<script>alert(1)</script>"),
	page("paths/svg", "picture.svg", `<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`),
	page("paths/xhtml", "page.xhtml", `<html xmlns="http://www.w3.org/1999/xhtml"><script>alert(1)</script></html>`),
	page("paths/xml", "data.xml", `<?xml-stylesheet href="x.xsl"?><x/>`),
	page("paths/html-without-a-name", "noname", "<!DOCTYPE html><script>alert(1)</script>"),
	page("paths/javascript", "code.js", "alert(1)"),
	page("paths/pdf", "paper.pdf", "%PDF-1.4"),
	{Name: "paths/artifact-of-a-link", Quick: true, Cell: `
os.symlink("OUTSIDE/secret", "bad"); os.symlink("/etc/passwd", "bad2"); os.mkfifo("bad3"); open("good", "w").write("x")`, Judge: judgeArtifacts},
	{Name: "paths/artifact-of-others", Quick: true, Needs: []Need{NeedOtherOwner}, Cell: `open("mine.txt", "w").write("mine CELL")`,
		Judge: judgeForeignArtifact},
	{Name: "paths/upload-by-form", Quick: true, Judge: judgeForm},
	{Name: "paths/upload-past-the-limit", Alone: true, Limits: api.LimitsRequest{DiskBytes: new(int64(4 << 20))},
		Judge: func(t *Trial) error {
			return t.refusedWith("PUT", "/files/big", strings.Repeat("x", 5<<20), api.CodeDiskLimit)
		}},
	{Name: "paths/rename-outside", Quick: true, Cell: `open("bad", "w").write("x"); os.symlink("OUTSIDE", "out")`,
		Judge: func(t *Trial) error {
			defer t.Run(`os.unlink("bad"); os.unlink("out")`)
			for _, to := range []string{"../x", "/tmp/x", "out/x", "", "a/../../x"} {
				a, err := t.send(t.Server.Token, "PATCH", "/v1/sessions/"+t.Session+"/files/bad", "application/json", fmt.Sprintf(`{"path":%q}`, to))
				if err != nil || a.Code != api.CodePathOutside {
					return fmt.Errorf("a rename to %q is answered with %d %s (%v)", to, a.Status, a.Code, err)
				}
			}
			return nil
		}},
	{Name: "paths/list-outside", Quick: true, Cell: `os.symlink("OUTSIDE", "out")`, Judge: func(t *Trial) error {
		defer t.Run(`os.unlink("out")`)
		for _, folder := range []string{"..", "../..", "/", "/etc", "out", "a/../..", "%2e%2e", "a%00"} {
			if err := t.refusedWith("GET", "/files?path="+folder, "", api.CodePathOutside); err != nil {
				return err
			}
		}
		return nil
	}},
	{Name: "paths/case", Quick: true, Cell: `
open("Name", "w").write("upper"); open("name", "w").write("lower")`, Judge: func(t *Trial) error {
		defer t.Run(`os.unlink("Name"); os.unlink("name")`)
		for name, want := range map[string]string{"Name": "upper", "name": "lower"} {
			if a, err := t.Send("GET", "/files/"+name, ""); err != nil || string(a.Body) != want {
				return fmt.Errorf("%s has %.100q (%v)", name, a.Body, err)
			}
		}
		return nil
	}},
}

// methods are the calls that take the path of a file.
var methods = []string{"GET", "PUT", "DELETE"}

// requests makes a check of paths that each call must refuse as outside or, if they are possible names, as missing.
func requests(name string, code api.Code, list ...string) Check {
	return Check{Name: name, Quick: true, Judge: func(t *Trial) error {
		for _, path := range list {
			path = strings.ReplaceAll(path, "OUTSIDE", strings.TrimPrefix(t.Outside.Dir, "/"))
			for _, method := range methods {
				if method == "PUT" && code == api.CodeFileNotFound {
					continue // it makes a file of that name, which is fine
				}
				body := ""
				if method == "PUT" {
					body = "x"
				}
				if err := t.refusedWith(method, "/files/"+path, body, code); err != nil {
					return err
				}
			}
		}
		return nil
	}}
}

// planted makes a check of paths that pass through what the cell has made, named "bad". Nothing may be read or written
// there.
func planted(name, code string, list ...string) Check {
	return Check{Name: name, Quick: true, Cell: code, Judge: func(t *Trial) error {
		defer t.Run(`
import shutil
for name in ("bad", "real"):
    shutil.rmtree(name) if os.path.isdir(name) and not os.path.islink(name) else os.path.lexists(name) and os.unlink(name)`)
		if t.Execution.Status != api.StatusOK {
			return fmt.Errorf("the cell ended %s: %.300s", t.Execution.Status, t.Execution.Text)
		}
		for _, path := range list {
			path = strings.ReplaceAll(path, "OUTSIDE", t.Outside.Dir)
			for _, call := range []struct{ method, path, body string }{
				{"GET", "/files/" + path, ""}, {"PUT", "/files/" + path, "x"}, {"GET", "/files?path=" + url.QueryEscape(path), ""},
			} {
				if err := t.refusedWith(call.method, call.path, call.body, api.CodePathOutside); err != nil {
					return err
				}
			}
		}
		return nil
	}}
}

// special returns a judge that something other than a regular file is neither read nor written, and that a request for
// it does not hang.
func special(name string) func(*Trial) error {
	return func(t *Trial) error {
		defer t.Run(fmt.Sprintf(`os.rmdir(%q) if os.path.isdir(%[1]q) else os.unlink(%[1]q)`, name))
		for method, body := range map[string]string{"GET": "", "PUT": "x"} {
			if err := t.refusedWith(method, "/files/"+name, body, api.CodeNotAFile); err != nil {
				return err
			}
		}
		return t.listsFiles()
	}
}

// page makes a check of a file whose code a browser would run if it were shown.
func page(name, file, content string) Check {
	cell := fmt.Sprintf("open(%q, 'w').write(%q + ' CELL')", file, content)
	return Check{Name: name, Quick: true, Cell: cell, Judge: func(t *Trial) error {
		defer t.Run(fmt.Sprintf("os.unlink(%q)", file))
		if len(t.Execution.Artifacts) != 1 {
			return fmt.Errorf("the cell created %d artifacts", len(t.Execution.Artifacts))
		}
		for _, path := range []string{"/v1/sessions/" + t.Session + "/files/" + file, t.Execution.Artifacts[0].URL} {
			a, err := t.send(t.Server.Token, "GET", path, "", "")
			if err != nil {
				return err
			}
			policy := a.Header.Get("Content-Security-Policy")
			if a.Status != 200 || !strings.HasPrefix(a.Header.Get("Content-Disposition"), "attachment") ||
				a.Header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(policy, "sandbox") ||
				strings.Contains(policy, "allow-scripts") {
				return fmt.Errorf("%s: %d %v", path, a.Status, a.Header)
			}
		}
		return nil
	}}
}

func judgeNames(t *Trial) error {
	defer t.Run(`[os.unlink(name) for name in names]`)
	names, _ := t.Saw["names"].([]any)
	if len(names) == 0 {
		return fmt.Errorf("the cell ended %s: %.300s", t.Execution.Status, t.Execution.Text)
	}
	for _, name := range names {
		a, err := t.Send("GET", "/files/"+url.PathEscape(name.(string)), "")
		if err != nil {
			return err
		}
		for header, values := range a.Header {
			if strings.ContainsFunc(strings.Join(values, ""), func(r rune) bool { return r < ' ' || r > '~' }) {
				return fmt.Errorf("the header %s of %q is %q", header, name, values)
			}
		}
		disposition := a.Header.Get("Content-Disposition")
		if a.Status != 200 || strings.Count(disposition, `"`) != 2 {
			return fmt.Errorf("%q: %d, Content-Disposition %q", name, a.Status, disposition)
		}
	}
	return t.listsFiles()
}

func judgeArtifacts(t *Trial) error {
	defer t.Run(`[os.unlink(name) for name in ("bad", "bad2", "bad3", "good")]`)
	for _, a := range t.Execution.Artifacts {
		if a.Path != "good" {
			return fmt.Errorf("%q became an artifact", a.Path)
		}
	}
	if len(t.Execution.Artifacts) != 1 {
		return fmt.Errorf("the cell created %d artifacts", len(t.Execution.Artifacts))
	}
	sum := sha256.Sum256([]byte(t.Outside.Secret))
	a, err := t.send(t.Server.Token, "GET", "/v1/artifacts/"+hex.EncodeToString(sum[:]), "", "")
	if err == nil && a.Code != api.CodeArtifactNotFound {
		err = fmt.Errorf("the digest of a file of the host is answered with %d", a.Status)
	}
	return err
}

func judgeForeignArtifact(t *Trial) error {
	defer t.Run(`os.unlink("mine.txt")`)
	if len(t.Execution.Artifacts) != 1 {
		return fmt.Errorf("the cell created %d artifacts", len(t.Execution.Artifacts))
	}
	a, err := t.send(t.Server.Other, "GET", t.Execution.Artifacts[0].URL, "", "")
	if err == nil && a.Code != api.CodeArtifactNotFound {
		err = fmt.Errorf("another owner's call is answered with %d", a.Status)
	}
	return err
}

func judgeForm(t *Trial) error {
	for _, name := range []string{"../x", "/tmp/x", "a/../../x", "", ".."} {
		var form bytes.Buffer
		w := multipart.NewWriter(&form)
		part, err := w.CreateFormFile("file", name)
		if err == nil {
			_, err = io.WriteString(part, "x")
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			return fmt.Errorf("make a form: %w", err)
		}
		a, err := t.send(t.Server.Token, "POST", "/v1/sessions/"+t.Session+"/files", w.FormDataContentType(), form.String())
		if err != nil {
			return err
		}
		if !slices.Contains([]api.Code{api.CodePathOutside, api.CodeInvalidRequest}, a.Code) {
			return fmt.Errorf("a form with %q is answered with %d %s", name, a.Status, a.Code)
		}
	}
	return nil
}

// spin starts a loop in a child that runs until the session ends.
const spin = `
if not os.fork():
    end = time.monotonic() + 30
    while time.monotonic() < end:
        BODY
    os._exit(0)
say(saw="spins")`

// judgeSwap downloads and uploads a path while a link to the host's secret comes and goes there.
func judgeSwap(t *Trial) error {
	body := `
        try:
            os.symlink("OUTSIDE/secret", "link"); os.rename("link", "bad")
            open("file", "w").write("x"); os.rename("file", "bad")
        except OSError: pass`
	return t.race(body, "bad")
}

// judgeSwapFolder is judgeSwap with a folder on the way.
func judgeSwapFolder(t *Trial) error {
	body := `
        try:
            os.makedirs("a/b", exist_ok=True); open("a/b/secret", "w").write("x")
            os.rename("a/b", "a/c"); os.symlink("OUTSIDE", "a/b")
            os.unlink("a/b"); os.rename("a/c", "a/b")
        except OSError: pass`
	return t.race(body, "a/b/secret")
}

func (t *Trial) race(body, path string) error {
	if _, err := t.See(t.Session, spin, "BODY", strings.TrimSpace(strings.ReplaceAll(body, "OUTSIDE", t.Outside.Dir))); err != nil {
		return err
	}
	for range 200 {
		if _, err := t.Send("GET", "/files/"+path, ""); err != nil { // it looks for the secret
			return err
		}
		if _, err := t.Send("PUT", "/files/"+path, "overwritten"); err != nil {
			return err
		}
	}
	secret, err := t.Outside.unchanged()
	if err == nil && !secret {
		err = fmt.Errorf("a file of the host was overwritten")
	}
	return err
}

// judgeGrowing downloads a file that grows faster than it is read.
func judgeGrowing(t *Trial) error {
	const grow = `with open("growing", "ab") as f:
            f.write(bytes(1 << 16))
            if f.tell() > 32 << 20: f.truncate(0)`
	if _, err := t.See(t.Session, spin, "BODY", grow); err != nil {
		return err
	}
	for range 50 {
		a, err := t.Send("GET", "/files/growing", "")
		if err != nil {
			return err
		}
		if a.Status != 200 && a.Code != api.CodeFileNotFound {
			return fmt.Errorf("a growing file: %d %s", a.Status, a.Code)
		}
	}
	return t.Works()
}
