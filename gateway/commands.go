package gateway

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"talaria/api"
	"talaria/gateway/render"
	"talaria/store/chats"
)

const (
	// mostTries is how often a kernel is asked that is busy, and triesPause how long it is left alone in between.
	mostTries  = 5
	triesPause = 400 * time.Millisecond
)

// action is a command that people can send.
type action struct {
	Command
	hidden bool // not in the menu
	run    func(c *chat, ctx context.Context, u Update, rest string) ([]saying, error)
}

// actions are all commands, in the order of the menu.
func actions() []action {
	return []action{
		{Command{"py", "Run Python code: {/}py 1+1"}, false, (*chat).runCode},
		{Command{"stop", "Interrupt the running cell and cancel waiting ones"}, false, (*chat).stop},
		{Command{"files", "List the files"}, false, (*chat).files},
		{Command{"get", "Send a file: {/}get PATH"}, false, (*chat).get},
		{Command{"install", "Install packages: {/}install NAME…"}, false, (*chat).install},
		{Command{"vars", "List the variables"}, false, (*chat).vars},
		{Command{"status", "Show the session: kernel, memory, limits"}, false, (*chat).status},
		{Command{"reset", "Start a fresh interpreter and keep files and packages ({/}reset all deletes them)"}, false, (*chat).reset},
		{Command{"restart", "The same as {/}reset"}, true, (*chat).reset},
		{Command{"export", "Send the session as a notebook"}, false, (*chat).export},
		{Command{"new", "Have the assistant forget the conversation"}, false, (*chat).forgetTalk},
		{Command{"help", "Show what this bot does"}, false, (*chat).help},
		{Command{"start", "Show what this bot does"}, true, (*chat).help},
		{Command{"pair", "Start using this bot"}, true, (*chat).paired},
	}
}

// commands are those of the menu.
func (b *Bot) commands() []Command {
	var menu []Command
	for _, a := range actions() {
		if !a.hidden && (a.Name != "new" || b.Assistant != nil) {
			a.About = strings.ReplaceAll(a.About, "{/}", b.slash())
			menu = append(menu, a.Command)
		}
	}
	return menu
}

// title is the platform's name as people write it.
func (b *Bot) title() string {
	name := b.Platform.Name()
	return strings.ToUpper(name[:1]) + name[1:]
}

var commandPattern = regexp.MustCompile(`^/([A-Za-z]+)(?:@\w+)?(?:\s+|$)`)

// command splits a text into the name of a command and what follows it; name is "" if the text is not a command. If words is true,
// a command may lack the slash.
func command(text string, words bool) (name, rest string) {
	text = strings.TrimSpace(text)
	if m := commandPattern.FindStringSubmatch(text); m != nil {
		return strings.ToLower(m[1]), strings.TrimSpace(text[len(m[0]):])
	}
	if word, rest, _ := strings.Cut(text, " "); words && !strings.ContainsAny(text, "\n=") {
		name := strings.ToLower(word)
		if slices.ContainsFunc(actions(), func(a action) bool { return a.Name == name }) {
			return name, strings.TrimSpace(rest)
		}
	}
	return "", text
}

// handleUpdates handles what people send, one update after another.
func (c *chat) handleUpdates(ctx context.Context) {
	var retry backoff
	var excused int64 // the update whose delay the person knows of
	for ctx.Err() == nil {
		var kept chats.Update
		var found bool
		if c.do(ctx, func(tx *chats.Tx) (err error) { kept, found, err = tx.NextUpdate(c.key); return err }) != nil {
			return
		}
		if !found {
			select {
			case <-c.inbox:
			case <-ctx.Done():
			}
			continue
		}
		u := decoded[Update](kept.Body)
		all, err := c.handle(ctx, kept.N, u)
		if ctx.Err() != nil {
			return
		}
		if refused := refusal(err); refused != nil {
			all, err = []saying{plain("%s", refused.Detail)}, nil
		}
		if err != nil {
			c.log.WarnContext(ctx, "an update could not be handled; trying again", "error", err)
			if excused != kept.N {
				excused = kept.N
				if c.do(ctx, func(tx *chats.Tx) error {
					return c.say(tx, "later:"+u.ID, plain("The server cannot be reached at the moment. Your message will be handled as soon as it is back."))
				}) != nil {
					return
				}
			}
			retry.wait(ctx, err)
			continue
		}
		retry = 0
		if c.do(ctx, func(tx *chats.Tx) error { return errors.Join(tx.Handled(kept.N), c.say(tx, "reply:"+u.ID, all...)) }) != nil {
			return
		}
	}
}

// refusal returns the server's refusal of a call, or nil for other errors, which may be temporary.
func refusal(err error) *api.Error {
	var refused *api.Error
	if !errors.As(err, &refused) || slices.Contains(temporary, refused.Code) {
		return nil
	}
	return refused
}

// temporary are the codes of errors that say nothing about the call: the same one may succeed later, or with the next token. An answer
// without a code is a proxy's.
var temporary = []api.Code{"", api.CodeInternal, api.CodeShuttingDown, api.CodeNotReady, api.CodeUnauthorized}

// handle does what an update asks for, and returns the reply. It may be called again for the same update.
func (c *chat) handle(ctx context.Context, n int64, u Update) ([]saying, error) {
	if u.Press != nil {
		return nil, c.pressed(ctx, u)
	}
	var all []saying
	if len(u.Files) > 0 {
		var err error
		if all, err = c.receiveFiles(ctx, n, u); err != nil || strings.TrimSpace(u.Text) == "" {
			return all, err
		}
	}
	more, err := c.handleText(ctx, n, u)
	return append(all, more...), err
}

func (c *chat) handleText(ctx context.Context, n int64, u Update) ([]saying, error) {
	if u.Answers != "" { // another attempt
		return c.answer(ctx, u.Answers, strings.TrimSpace(u.Text), "The connection to the server broke while your answer was sent, and the question is no longer open. "+
			"If the cell goes on without your answer, it was not used.")
	}
	name, rest := command(u.Text, c.bot.Platform.Target() == api.RenderSlack)
	if name != "" {
		for _, a := range actions() {
			if a.Name == name {
				return a.run(c, ctx, u, rest)
			}
		}
		target := c.bot.Platform.Target()
		s := saying{Message: Message{Text: "There is no command " + render.Inline(target, c.bot.slash()+name) + ".\n" + render.Text(target, c.bot.helpText()),
			Format: render.FormatOf(target)}}
		return []saying{s}, nil
	}
	execution, request, err := c.question(ctx)
	if err != nil {
		return nil, err
	}
	if execution != "" {
		u.Answers = request // stored first, so that another attempt does not run the answer if the cell has got it
		if err := c.do(ctx, func(tx *chats.Tx) error { return tx.PutUpdate(n, encoded(u)) }); err != nil {
			return nil, err
		}
		return c.answer(ctx, request, rest, "The question is no longer open, so your answer was not used.")
	}
	if source, fenced := fencedCode(rest); fenced {
		return c.runCode(ctx, u, source)
	}
	if c.bot.Assistant != nil {
		return c.remark(ctx, u, rest)
	}
	return c.runCode(ctx, u, rest)
}

var fencePattern = regexp.MustCompile("(?s)```[ \t]*(?:(?:python3?|py)[ \t]*\n|\n)?(.*?)```")

// fencedCode is the code between fences of a text, and whether there is any.
func fencedCode(text string) (source string, ok bool) {
	var blocks []string
	for _, m := range fencePattern.FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, strings.Trim(m[1], "\n"))
	}
	return strings.Join(blocks, "\n"), len(blocks) > 0
}

// answer answers what a cell asks. closed is what to say if the question is no longer open.
func (c *chat) answer(ctx context.Context, request, value, closed string) ([]saying, error) {
	err := c.bot.Client.Input(ctx, c.session, api.InputRequest{RequestID: &request, Value: value})
	if refused := refusal(err); refused != nil && refused.Code == api.CodeNoInputPending {
		return []saying{plain("%s", closed)}, nil
	}
	return nil, err
}

func (c *chat) runCode(ctx context.Context, u Update, source string) ([]saying, error) {
	if inner, fenced := fencedCode(source); fenced {
		source = inner
	}
	if strings.TrimSpace(source) == "" {
		return []saying{c.bot.words("There is no code to run. For example, send: {/}py 1+1")}, nil
	}
	interrupts := c.bot.Interrupt && c.busy()
	if interrupts {
		if err := c.bot.Client.Interrupt(ctx, c.session, ""); err != nil && refusal(err) == nil {
			return nil, err
		}
	}
	queued, err := c.run(ctx, executionID(u.ID, 0), u.From, source)
	switch {
	case err != nil:
		return nil, err
	case interrupts:
		return []saying{plain("The running cell is interrupted, and this one runs next.")}, nil
	case queued:
		return []saying{c.bot.words("This cell is waiting for the running one. To interrupt both, send {/}stop")}, nil
	}
	return nil, nil
}

func (c *chat) stop(ctx context.Context, _ Update, _ string) ([]saying, error) {
	open, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	thinking, err := c.stopThinking(ctx)
	if err != nil {
		return nil, err
	}
	err = c.bot.Client.Interrupt(ctx, c.session, "")
	switch refused := refusal(err); {
	case thinking && (refused != nil || err == nil && len(open) == 0):
		return []saying{plain("The assistant stops after this step.")}, nil
	case refused != nil || err == nil && len(open) == 0:
		return []saying{plain("Nothing is running.")}, nil
	}
	return nil, err
}

func (c *chat) files(ctx context.Context, _ Update, rest string) ([]saying, error) {
	if err := c.ensure(ctx); err != nil {
		return nil, err
	}
	files, err := c.bot.Client.Files(ctx, c.session, rest)
	if err != nil {
		return nil, err
	}
	return []saying{list(c.bot.Platform.Target(), files)}, nil
}

func (c *chat) get(ctx context.Context, _ Update, rest string) ([]saying, error) {
	if rest == "" {
		return []saying{c.bot.words("Name a file, as in {/}get PATH. To list the files, send {/}files")}, nil
	}
	if err := c.ensure(ctx); err != nil {
		return nil, err
	}
	d, err := c.bot.Client.GetFile(ctx, c.session, rest) // to refuse at once what cannot be sent
	if err != nil {
		return nil, err
	}
	n := d.Size
	if err := d.Close(); err != nil {
		return nil, err
	}
	target := c.bot.Platform.Target()
	if n == 0 {
		return []saying{{Message: Message{Text: render.Inline(target, rest) + " is empty.", Format: render.FormatOf(target)}}}, nil
	}
	if n > render.LimitsOf(target).FileBytes {
		s, err := c.largeFile(ctx, rest, n)
		return []saying{s}, err
	}
	return []saying{{File: rest}}, nil
}

// requirement is what /install takes: no options, no URLs, no paths.
var requirement = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?([=<>!~]=?[A-Za-z0-9.*+!,<>=~-]+)?$`)

func (c *chat) install(ctx context.Context, u Update, rest string) ([]saying, error) {
	names := strings.Fields(rest)
	for _, name := range names {
		if !requirement.MatchString(name) {
			target := c.bot.Platform.Target()
			return []saying{{Message: Message{
				Text: render.Inline(target, short(name, 100)) + " is not the name of a package. For example, send: " +
					c.bot.slash() + "install humanize rich==13.7.1",
				Format: render.FormatOf(target),
			}}}, nil
		}
	}
	if len(names) == 0 {
		return []saying{c.bot.words("Name one or more packages, as in {/}install humanize rich==13.7.1")}, nil
	}
	return c.runCode(ctx, u, "%pip install "+strings.Join(names, " "))
}

func (c *chat) vars(ctx context.Context, _ Update, _ string) ([]saying, error) {
	if err := c.ensure(ctx); err != nil {
		return nil, err
	}
	reply, err := answered(ctx, func() (api.VariablesReply, error) { return c.bot.Client.Variables(ctx, c.session) })
	switch refused := refusal(err); {
	case refused != nil && refused.Code == api.CodeNoKernel:
		return []saying{plain("Python is not running. Send code, which starts it, and then list the variables.")}, nil
	case err != nil:
		return nil, err
	case len(reply.Items) == 0:
		return []saying{plain("There are no variables.")}, nil
	}
	var b strings.Builder
	for _, v := range reply.Items {
		fmt.Fprintf(&b, "%s: %s = %s\n", v.Name, v.Type, short(strings.ReplaceAll(v.Preview, "\n", " "), 80))
	}
	return []saying{code(c.bot.Platform.Target(), b.String())}, nil
}

// answered asks again for a while if the kernel is busy: the server waits 200 ms for an answer, and a kernel on a busy machine may need
// longer.
func answered[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	for try := 1; ; try++ {
		reply, err := ask()
		if refused := refusal(err); refused == nil || refused.Code != api.CodeKernelBusy || try == mostTries {
			return reply, err
		}
		sleep(ctx, triesPause)
	}
}

func (c *chat) status(ctx context.Context, _ Update, _ string) ([]saying, error) {
	if err := c.ensure(ctx); err != nil {
		return nil, err
	}
	s, err := c.bot.Client.Session(ctx, c.session)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "session    %s\nkernel     %s", s.ID, s.State)
	if s.Kernel.Python != "" {
		fmt.Fprintf(&b, ", Python %s", s.Kernel.Python)
	}
	fmt.Fprintf(&b, "\ncells      %d\nmemory     %s of %s\nfiles      %s of %s\nnetwork    %s\ntime       %s for a cell\n",
		s.ExecutionCount, size(s.Usage.MemoryBytes), size(s.Limits.MemoryBytes), size(s.Usage.DiskBytes), size(s.Limits.DiskBytes),
		s.Network.Mode, seconds(s.Limits.ExecutionTimeoutS))
	return []saying{code(c.bot.Platform.Target(), b.String())}, nil
}

func seconds(s float64) string {
	if s <= 0 {
		return "no limit"
	}
	return fmt.Sprintf("%.0f s", s)
}

func (c *chat) reset(ctx context.Context, _ Update, rest string) ([]saying, error) {
	if rest != "" && rest != "all" {
		return []saying{c.bot.words("Send {/}reset to keep files and packages, or {/}reset all to delete them too.")}, nil
	}
	if err := c.ensure(ctx); err != nil {
		return nil, err
	}
	keep := rest == ""
	if _, err := c.bot.Client.ResetSession(ctx, c.session, api.ResetRequest{KeepFiles: &keep, KeepPackages: &keep}); err != nil {
		return nil, err
	}
	if keep {
		return []saying{plain("A fresh interpreter is ready. Variables are gone; files and packages are still there.")}, nil
	}
	return []saying{plain("Everything was reset: variables, files and packages are gone.")}, nil
}

func (c *chat) export(ctx context.Context, _ Update, _ string) ([]saying, error) {
	return []saying{{Notebook: true}}, c.ensure(ctx)
}

func (c *chat) help(context.Context, Update, string) ([]saying, error) {
	return []saying{plain("%s", c.bot.helpText())}, nil
}

func (c *chat) paired(context.Context, Update, string) ([]saying, error) {
	return []saying{c.bot.words("You may already use this bot. " + c.bot.welcome())}, nil
}

// helpText is what /help shows.
func (b *Bot) helpText() string {
	var text strings.Builder
	text.WriteString("This bot runs Python. Each chat has its own session, which keeps its variables and files.\n")
	if b.Assistant != nil {
		fmt.Fprintf(&text, "Write to the assistant in plain words, or send code in a ``` block or after %spy. ", b.slash())
	} else {
		fmt.Fprintf(&text, "Send code as text, in a ``` block, or after %spy. ", b.slash())
	}
	text.WriteString("Charts and files that your code creates are sent back. Files that you send are available to your code.\n\n")
	if b.Platform.Target() == api.RenderSlack {
		text.WriteString("Commands, as a message or after /talaria:\n")
	}
	for _, command := range b.commands() {
		fmt.Fprintf(&text, "%s%s – %s\n", b.slash(), command.Name, command.About)
	}
	return strings.TrimRight(text.String(), "\n")
}
