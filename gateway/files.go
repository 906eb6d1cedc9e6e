package gateway

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"
	"unicode"

	"talaria/api"
	"talaria/gateway/render"
	"talaria/store/chats"
)

const (
	maxUpload     = 20 << 20 // that a bot may download on Telegram
	downloadTries = 3
	maxName       = 120     // of a file, in bytes
	previewCSV    = 1 << 20 // that is read to count rows
)

// base returns the name of a file without folders, without control characters and without invisible ones that could mislead a
// reader.
func base(name string) string {
	name = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || strings.ContainsRune(`<>:"|?*`, r) {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(strings.ReplaceAll(name, `\`, "/"), "_"))
	name = strings.TrimLeft(path.Base(path.Clean("/"+name)), ". ")
	if name == "" || name == "/" {
		return "file"
	}
	if len(name) > maxName {
		ext := path.Ext(name)
		if len(ext) > 20 {
			ext = ""
		}
		name = strings.ToValidUTF8(name[:maxName-len(ext)], "") + ext
	}
	return name
}

// receiveFiles saves the files of a message in the workspace and says how to use them.
func (c *chat) receiveFiles(ctx context.Context, n int64, u Update) ([]saying, error) {
	if err := c.ensure(ctx); err != nil {
		return nil, err
	}
	target := c.bot.Platform.Target()
	var lines []string
	for i, f := range u.Files {
		if f.Size > maxUpload {
			lines = append(lines, fmt.Sprintf("%s is %s, and the bot accepts files of at most %s.", render.Inline(target, base(f.Name)), size(f.Size), size(maxUpload)))
			continue
		}
		if f.Saved == "" { // stored first, so that another attempt does not save the file twice
			name, err := c.freeName(ctx, base(f.Name))
			if err != nil {
				return nil, err
			}
			f.Saved, u.Files[i].Saved = name, name
			if err := c.do(ctx, func(tx *chats.Tx) error { return tx.PutUpdate(n, encoded(u)) }); err != nil {
				return nil, err
			}
		}
		line, err := c.receiveFile(ctx, f)
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return []saying{{Message: Message{Text: strings.Join(lines, "\n"), Format: render.FormatOf(target), ReplyTo: u.MessageID}}}, nil
}

// receiveFile saves a file, and returns what to say about it. A download that fails is tried three times; if the server fails, the
// error is returned.
func (c *chat) receiveFile(ctx context.Context, f Attachment) (line string, err error) {
	target := c.bot.Platform.Target()
	for try := 1; ; try++ {
		var failed error // of the platform
		if line, failed, err = c.saveFile(ctx, f); failed == nil || ctx.Err() != nil {
			return line, err
		}
		if errors.Is(failed, ErrTooLarge) || errors.Is(failed, ErrRefused) || errors.Is(failed, ErrForbidden) {
			return render.Inline(target, base(f.Name)) + " cannot be downloaded: " + render.Text(target, reason(failed)) + ".", nil
		}
		c.log.WarnContext(ctx, "a file could not be downloaded", "attempt", try, "error", failed)
		if try == downloadTries {
			return render.Inline(target, base(f.Name)) + " could not be downloaded from " + c.bot.title() + ". Send it again.", nil
		}
		sleep(ctx, time.Duration(try)*uploadPause)
	}
}

// reason returns the words that a platform gave for an error.
func reason(err error) string {
	words := err.Error()
	for _, kind := range []error{ErrTooLarge, ErrRefused, ErrForbidden} {
		words = strings.TrimPrefix(words, kind.Error()+": ")
	}
	return words
}

// saveFile saves a file in the workspace under its Saved name, and returns what to say about it. failed is an error of the platform.
func (c *chat) saveFile(ctx context.Context, f Attachment) (line string, failed, err error) {
	name, target := f.Saved, c.bot.Platform.Target()
	in, failed := c.bot.Platform.Download(ctx, f)
	if failed != nil {
		return "", failed, nil
	}
	defer in.Close()
	source := &watched{in: in}
	head := &headKeeper{max: previewCSV}
	file, _, err := c.bot.Client.PutFile(ctx, c.session, name, io.TeeReader(io.LimitReader(source, maxUpload+1), head))
	if source.err != nil {
		return "", source.err, nil
	}
	if err != nil {
		return "", nil, err
	}
	if file.Size > maxUpload {
		if err := c.bot.Client.DeleteFile(ctx, c.session, name); err != nil {
			return "", nil, err
		}
		return fmt.Sprintf("%s is larger than %s, so it was not saved.", render.Inline(target, name), size(maxUpload)), nil, nil
	}
	line = fmt.Sprintf("Saved as %s (%s).", render.Inline(target, file.Path), size(file.Size))
	if strings.EqualFold(path.Ext(name), ".csv") {
		if shape := csvShape(head.String(), file.Size > int64(head.Len())); shape != "" {
			line += " " + render.Text(target, shape) + " " + render.Inline(target, fmt.Sprintf("pd.read_csv(%q)", file.Path))
		}
	}
	return line, nil, nil
}

// watched keeps the error of a reader.
type watched struct {
	in  io.Reader
	err error
}

// Read implements io.Reader.
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.in.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}

// freeName numbers a name that is taken.
func (c *chat) freeName(ctx context.Context, name string) (string, error) {
	files, err := c.bot.Client.Files(ctx, c.session, "")
	if err != nil {
		return "", err
	}
	taken := make(map[string]bool)
	for _, f := range files {
		taken[f.Name] = true
	}
	ext := path.Ext(name)
	free := name
	for n := 2; taken[free]; n++ {
		free = fmt.Sprintf("%s-%d%s", strings.TrimSuffix(name, ext), n, ext)
	}
	return free, nil
}

// headKeeper keeps the first bytes that are written to it.
type headKeeper struct {
	strings.Builder
	max int
}

// Write implements io.Writer.
func (h *headKeeper) Write(p []byte) (int, error) {
	if room := h.max - h.Len(); room > 0 {
		h.Builder.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// csvShape says how many rows and which columns a CSV has. It returns "" if the text is not a CSV.
func csvShape(head string, more bool) string {
	r := csv.NewReader(strings.NewReader(head))
	r.FieldsPerRecord = -1
	header, err := r.Read()
	if err != nil {
		return ""
	}
	rows := 0
	for {
		_, err = r.Read()
		if err != nil {
			break
		}
		rows++
	}
	if !errors.Is(err, io.EOF) && !more {
		return ""
	}
	count := plural(rows, "row")
	if more {
		count = "more than " + count
	}
	return fmt.Sprintf("%s, %s: %s.", count, plural(len(header), "column"), short(strings.Join(header, ", "), 300))
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// list lists the files of the workspace's top folder.
func list(t api.RenderTarget, files []api.File) saying {
	if len(files) == 0 {
		return plain("There are no files yet. Send one to the chat, or write one in a cell.")
	}
	var b strings.Builder
	for _, f := range files {
		name := f.Name
		if f.Kind == "directory" {
			name += "/"
		}
		fmt.Fprintf(&b, "%-10s %s\n", size(f.Size), name)
	}
	return code(t, b.String())
}

// code returns a message with a text as a code block. A note stands for what does not fit.
func code(t api.RenderTarget, text string) saying {
	pieces := render.Split(t, text)
	if len(pieces) == 0 {
		return plain("(nothing)")
	}
	s := saying{Message: Message{Text: render.Code(t, pieces[0]), Format: render.FormatOf(t)}}
	if len(pieces) > 1 {
		s.Text += "\n" + render.Text(t, "(the rest does not fit)")
	}
	return s
}

// size formats a number of bytes for people.
func size(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// short cuts a text at the end of a character.
func short(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}
