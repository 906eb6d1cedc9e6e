package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"golang.org/x/sys/unix"
)

// browser is one tab of a real browser with a profile of its own. It ends with its test, and all of its processes too.
type browser struct {
	*testing.T
	ctx context.Context

	mu     sync.Mutex // guards errors
	errors []string   // of the console, and exceptions of the page
}

// openBrowser starts the browser. It skips the test where there is none.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		fmt.Fprintln(os.Stderr, "SKIP: the page is not tested: chromium is not installed")
		t.Skip("chromium is not installed")
	}
	home := t.TempDir()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(filepath.Join(home, "profile")),
		chromedp.Env("HOME="+home, "TMPDIR="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home),
		chromedp.Flag("no-sandbox", os.Getuid() == 0), // it has none for root
		chromedp.DisableGPU, chromedp.WindowSize(1200, 900),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"),
		// Frames stay in the page's process, since only there one connection sees their elements and errors. What a
		// frame may do is the same.
		chromedp.Flag("disable-site-isolation-trials", true),
		chromedp.Flag("disable-features", "Translate,IsolateSandboxedIframes"),
	)
	allocator, cancel := chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	tab, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	b := &browser{T: t, ctx: tab}
	if err := chromedp.Listen(tab, b.listen); err != nil {
		t.Fatalf("start the browser: %v", err)
	}
	t.Cleanup(b.close)
	ask(b, log.Enable.Method, func(ctx context.Context) error {
		_, err := chromedp.Call(ctx, log.Enable, cdp.Empty{})
		return err
	})
	return b
}

// close ends the browser and waits for the end of all of its processes. One that stays is killed, and is an error.
func (b *browser) close() {
	pid := chromedp.FromContext(b.ctx).Browser.Process().Pid
	inside := descendants(pid)
	if err := chromedp.Cancel(b.ctx); err != nil {
		b.Errorf("end the browser: %v", err)
	}
	for _, p := range inside {
		fd, err := unix.PidfdOpen(p.pid, 0)
		if err != nil {
			continue // it has ended
		}
		if p.alive() {
			ready, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(ending/time.Millisecond))
			if err != nil || ready == 0 {
				b.Errorf("process %v of the browser does not end: %v", p, err)
				_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // what is left shows after all tests
			}
		}
		_ = unix.Close(fd)
	}
}

// listen takes what goes wrong in the page. It must not call the browser.
func (b *browser) listen(event any) {
	switch e := event.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			b.problem(fmt.Sprintf("%s (%s)", e.Entry.Text, e.Entry.URL))
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeAssert {
			text, _ := json.Marshal(e.Args)
			b.problem(string(text))
		}
	case *runtime.EventExceptionThrown:
		b.problem((&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error())
	case *page.EventJavascriptDialogOpening:
		b.problem("a dialog: " + e.Message)
	}
}

func (b *browser) problem(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errors = append(b.errors, text)
}

// problems are the errors since the last call.
func (b *browser) problems() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.errors
	b.errors = nil
	return list
}

// wantQuiet checks that nothing went wrong in the page since the last call of problems.
func (b *browser) wantQuiet() {
	b.Helper()
	for _, problem := range b.problems() {
		b.Errorf("the page's console: %s", problem)
	}
}

// ask asks the browser for something, which must succeed.
func ask(b *browser, doing string, do func(context.Context) error) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, startup)
	defer cancel()
	if err := do(ctx); err != nil {
		b.Fatalf("browser: %s: %v; its console: %q", doing, err, b.problems())
	}
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ask(b, "act", func(ctx context.Context) error { return chromedp.Do(ctx, steps...) })
}

// load does what loads another page, and returns the status of the answer.
func (b *browser) load(steps ...chromedp.Action[chromedp.Void]) (status int64) {
	b.Helper()
	ask(b, "load a page", func(ctx context.Context) error {
		response, err := chromedp.RunResponse(ctx, steps...)
		if err == nil {
			status = response.Status
		}
		return err
	})
	return status
}

// eval is the value of an expression in the page; a promise is awaited.
func eval[T any](b *browser, expression string) (value T) {
	b.Helper()
	ask(b, expression, func(ctx context.Context) (err error) {
		value, err = chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
		return err
	})
	return value
}

// wait returns once an expression is true in the page. It is looked at whenever the page changes.
func (b *browser) wait(expression string) {
	b.Helper()
	shown := eval[string](b, fmt.Sprintf(`new Promise((done) => {
		const holds = () => { try { return Boolean(%s) } catch { return false } };
		if (holds()) return done("");
		const late = setTimeout(() => { watch.disconnect(); done("the page:\n" + document.body.innerText); }, %d);
		const watch = new MutationObserver(() => {
			if (holds()) { watch.disconnect(); clearTimeout(late); done(""); }
		});
		watch.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
	})`, expression, (startup-5*time.Second)/time.Millisecond))
	if shown != "" {
		b.Fatalf("waited in vain for %s; the console: %q; %s", expression, b.problems(), shown)
	}
}

// framed is the HTML in the frame that a selector finds, as the browser's own tools see it; nobody else may. It waits
// for an element inside of the frame.
func (b *browser) framed(frame, inside string) (html string) {
	b.Helper()
	ask(b, "look into "+frame, func(ctx context.Context) error {
		nodes, err := chromedp.Run(ctx, chromedp.Nodes(chromedp.CSS(frame)))
		if err != nil {
			return err
		}
		found, err := chromedp.Run(ctx, chromedp.Nodes(chromedp.CSS(inside), chromedp.FromNode(nodes[0])))
		if err != nil {
			return err
		}
		out, err := chromedp.Call(ctx, dom.GetOuterHTML, dom.GetOuterHTMLParams{NodeID: found[0].NodeID})
		html = out.OuterHTML
		return err
	})
	return html
}

// paste puts text where the keys go, in one piece, as a paste does.
func paste(text string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, input.InsertText, input.InsertTextParams{Text: text})
		return err
	})
}

// shiftEnter presses these keys. They type nothing: a page that takes them itself would get a line break all the same.
func shiftEnter() chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeRawKeyDown, input.DispatchKeyEventTypeKeyUp} {
			_, err := chromedp.Call(ctx, input.DispatchKeyEvent, input.DispatchKeyEventParams{
				Type: kind, Key: "Enter", Code: "Enter", WindowsVirtualKeyCode: 13, Modifiers: int64(chromedp.ModifierShift),
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}
