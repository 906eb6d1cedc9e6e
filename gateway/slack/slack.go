// Package slack implements gateway.Platform with Slack's Web API, and events by Socket Mode or by HTTP.
package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/slack-go/slack"
	"github.com/slack-go/slack/socketmode"

	"talaria/api"
	"talaria/gateway"
)

const (
	defaultURL = "https://slack.com/api/"
	callTime   = 60 * time.Second
	fileTime   = 10 * time.Minute // for the bytes of one file
	maxEvent   = 1 << 20          // bytes of a request with an event
	maxUpload  = 1_000_000_000    // bytes of a file
	maxSection = 3000             // characters of a section block
	maxBlocks  = 50
)

// Config is an app in a workspace. It needs either AppToken or SigningSecret.
type Config struct {
	BotToken      string // xoxb-…
	AppToken      string // xapp-…, for Socket Mode
	SigningSecret string // for events by HTTP, which reach ServeHTTP
	// DirectThreads: a direct message opens a thread with a session of its own. Otherwise all direct messages of a person have one.
	DirectThreads bool
	// URL is the address of the Web API; "" for Slack's own.
	URL string
	Log *slog.Logger
}

// Platform is an app in a workspace. It is safe for concurrent use. As an [http.Handler] it takes events.
type Platform struct {
	Config
	http  *http.Client
	api   *slack.Client
	files *slack.Client // with more time

	mu        sync.Mutex // guards what follows
	user      string     // the bot's
	take      func(context.Context, gateway.Update) error
	streams   map[string]string // the texts of messages that still grow, by id
	noStreams bool              // Slack has refused one
}

// New makes a platform. Nothing is sent yet.
func New(c Config) (*Platform, error) {
	if c.BotToken == "" {
		return nil, errors.New("the bot's token is empty; Slack shows it as Bot User OAuth Token, xoxb-…")
	}
	if (c.AppToken == "") == (c.SigningSecret == "") {
		return nil, errors.New("events come either by Socket Mode, which needs an app-level token (xapp-…), or by HTTP, " +
			"which needs the signing secret; give exactly one of them")
	}
	if c.URL == "" {
		c.URL = defaultURL
	}
	if !strings.HasSuffix(c.URL, "/") {
		c.URL += "/"
	}
	p := &Platform{Config: c, streams: make(map[string]string)}
	p.http = &http.Client{Timeout: callTime, CheckRedirect: p.checkRedirect}
	p.api = slack.New(c.BotToken, slack.OptionAPIURL(c.URL), slack.OptionAppLevelToken(c.AppToken), slack.OptionHTTPClient(p.http))
	p.files = slack.New(c.BotToken, slack.OptionAPIURL(c.URL), slack.OptionHTTPClient(&http.Client{Timeout: fileTime, CheckRedirect: p.checkRedirect}))
	return p, nil
}

// Name implements gateway.Platform.
func (*Platform) Name() string { return "slack" }

// Target implements gateway.Platform.
func (*Platform) Target() api.RenderTarget { return api.RenderSlack }

// Open implements gateway.Platform. Slack's commands are part of the app's manifest.
func (p *Platform) Open(ctx context.Context, _ []gateway.Command) (gateway.Account, error) {
	me, err := p.api.AuthTestContext(ctx)
	if err != nil {
		return gateway.Account{}, p.failure(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.user = me.UserID
	return gateway.Account{ID: me.TeamID + "/" + me.UserID, Name: me.User}, nil
}

// Receive implements gateway.Platform. Slack has no positions: it repeats what was not acknowledged.
func (p *Platform) Receive(ctx context.Context, _ string, take func(context.Context, gateway.Update) error) error {
	if p.AppToken == "" {
		return p.receiveHTTP(ctx, take)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	socket := socketmode.New(p.api)
	ended := make(chan error, 1)
	var running sync.WaitGroup
	running.Go(func() { ended <- socket.RunContext(ctx) })
	defer func() {
		stop()
		running.Wait()
	}()
	for {
		select {
		case err := <-ended:
			return p.failure(err)
		case e := <-socket.Events:
			switch e.Type {
			case socketmode.EventTypeInvalidAuth:
				return gateway.ErrSignedOut
			case socketmode.EventTypeEventsAPI, socketmode.EventTypeInteractive, socketmode.EventTypeSlashCommand:
			default:
				continue
			}
			u, err := p.read(e.Request.Type, e.Request.Payload)
			if err == nil && u.ID != "" {
				err = take(ctx, u)
			}
			if err != nil { // without an acknowledgement, Slack sends it again
				p.Log.WarnContext(ctx, "an event of Slack could not be stored", "error", err)
				continue
			}
			if err := socket.AckCtx(ctx, e.Request.EnvelopeID, nil); err != nil {
				p.Log.WarnContext(ctx, "an event of Slack could not be acknowledged", "error", p.failure(err))
			}
		}
	}
}

func (p *Platform) receiveHTTP(ctx context.Context, take func(context.Context, gateway.Update) error) error {
	set := func(take func(context.Context, gateway.Update) error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.take = take
	}
	set(take)
	defer set(nil)
	<-ctx.Done()
	return ctx.Err()
}

// ServeHTTP takes events, presses and slash commands. It answers 200 once they are stored; otherwise Slack sends events again.
func (p *Platform) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxEvent))
	if err != nil {
		http.Error(w, "the event cannot be read", http.StatusBadRequest)
		return
	}
	if !p.signed(r.Header, body) {
		http.Error(w, "the signature is wrong or too old", http.StatusUnauthorized)
		return
	}
	kind, payload, err := unwrap(r.Header.Get("Content-Type"), body)
	if err != nil {
		http.Error(w, "not a Slack event", http.StatusBadRequest)
		return
	}
	var hello struct{ Type, Challenge string }
	if kind == eventsAPI && json.Unmarshal(payload, &hello) == nil && hello.Type == "url_verification" {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, hello.Challenge)
		return
	}
	u, err := p.read(kind, payload)
	if err != nil {
		http.Error(w, "not a Slack event", http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	take := p.take
	p.mu.Unlock()
	if take == nil {
		http.Error(w, "the bot is not ready", http.StatusServiceUnavailable)
		return
	}
	if u.ID == "" {
		return
	}
	if err := take(r.Context(), u); err != nil {
		http.Error(w, "the event could not be stored", http.StatusInternalServerError)
	}
}

// signed reports whether a request is Slack's, and of the last five minutes.
func (p *Platform) signed(header http.Header, body []byte) bool {
	if p.SigningSecret == "" {
		return false
	}
	v, err := slack.NewSecretsVerifier(header, p.SigningSecret)
	if err != nil {
		return false
	}
	_, err = v.Write(body)
	return err == nil && v.Ensure() == nil
}

// unwrap finds the kind and the payload of a request as Socket Mode would deliver them.
func unwrap(contentType string, body []byte) (kind string, payload json.RawMessage, err error) {
	if !strings.HasPrefix(contentType, "application/x-www-form-urlencoded") {
		return eventsAPI, body, nil
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return "", nil, err
	}
	if text := form.Get("payload"); text != "" {
		return interactive, json.RawMessage(text), nil
	}
	fields := make(map[string]string)
	for name := range form {
		fields[name] = form.Get(name)
	}
	payload, err = json.Marshal(fields)
	return slashCommands, payload, err
}

// Acknowledge implements gateway.Platform: the press is acknowledged with its event.
func (p *Platform) Acknowledge(ctx context.Context, press gateway.Press, notice string) error {
	channel, rest, _ := strings.Cut(press.ID, "|")
	user, _, _ := strings.Cut(rest, "|")
	if notice == "" || channel == "" || user == "" {
		return nil
	}
	_, err := p.api.PostEphemeralContext(ctx, channel, user, slack.MsgOptionText(notice, true))
	return p.failure(err)
}

// Typing implements gateway.Platform. Slack has nothing like it for bots; the progress message is the sign.
func (*Platform) Typing(context.Context, gateway.Chat) error { return nil }

// Send implements gateway.Platform.
func (p *Platform) Send(ctx context.Context, to gateway.Chat, m gateway.Message) (id string, err error) {
	if len(m.Files) > 0 {
		return "", p.upload(ctx, to, m)
	}
	if id, started, err := p.startStream(ctx, to, m); started || err != nil {
		return id, err
	}
	options := append(content(m, false), metadata(m), slack.MsgOptionDisableLinkUnfurl(), slack.MsgOptionDisableMediaUnfurl())
	if to.Thread != "" {
		options = append(options, slack.MsgOptionTS(to.Thread))
	}
	_, id, err = p.api.PostMessageContext(ctx, to.ID, options...)
	if blocksRejected(err) {
		_, id, err = p.api.PostMessageContext(ctx, to.ID, append(options, slack.MsgOptionBlocks())...)
	}
	return id, p.failure(err)
}

// Edit implements gateway.Platform. An edit without buttons removes those that were there.
func (p *Platform) Edit(ctx context.Context, in gateway.Chat, id string, m gateway.Message) error {
	if appended, err := p.appendStream(ctx, in.ID, id, m); appended || err != nil {
		return err
	}
	if _, streams := p.stream(id); streams {
		if err := p.stopStream(ctx, in.ID, id); err != nil {
			return err
		}
	}
	_, _, _, err := p.api.UpdateMessageContext(ctx, in.ID, id, content(m, true)...)
	if err != nil && err.Error() == streamRunning { // the bot that started it has ended
		if err := p.stopStream(ctx, in.ID, id); err != nil {
			return err
		}
		_, _, _, err = p.api.UpdateMessageContext(ctx, in.ID, id, content(m, true)...)
	}
	if blocksRejected(err) {
		_, _, _, err = p.api.UpdateMessageContext(ctx, in.ID, id, append(content(m, true), slack.MsgOptionBlocks())...)
	}
	return p.failure(err)
}

// Delete implements gateway.Platform.
func (p *Platform) Delete(ctx context.Context, in gateway.Chat, id string) error {
	if _, streams := p.stream(id); streams {
		if err := p.stopStream(ctx, in.ID, id); err != nil {
			return err
		}
	}
	_, _, err := p.api.DeleteMessageContext(ctx, in.ID, id)
	if err != nil && err.Error() == streamRunning {
		if err := p.stopStream(ctx, in.ID, id); err != nil {
			return err
		}
		_, _, err = p.api.DeleteMessageContext(ctx, in.ID, id)
	}
	return p.failure(err)
}

// block matches a code block that ends with an empty line, which Slack would show.
var block = regexp.MustCompile("(?s)```\n(.*?)\n\n```")

// content returns the text of a message, and its blocks if it has buttons, or if an edit has to remove them.
func content(m gateway.Message, edit bool) []slack.MsgOption {
	if m.Format == api.RenderMrkdwn {
		m.Text = block.ReplaceAllString(m.Text, "```\n$1\n```")
	}
	options := []slack.MsgOption{slack.MsgOptionText(m.Text, m.Format != api.RenderMrkdwn)}
	if len(m.Buttons) == 0 {
		if edit {
			options = append(options, slack.MsgOptionBlocks())
		}
		return options
	}
	kind := slack.MarkdownType
	if m.Format != api.RenderMrkdwn {
		kind = slack.PlainTextType
	}
	var blocks []slack.Block
	for _, section := range sections(m.Text) {
		blocks = append(blocks, slack.NewSectionBlock(slack.NewTextBlockObject(kind, section, false, false), nil, nil))
	}
	return append(options, slack.MsgOptionBlocks(append(blocks, buttons(m))...))
}

// buttons is the block with the buttons of a message.
func buttons(m gateway.Message) slack.Block {
	var elements []slack.BlockElement
	for i, b := range m.Buttons {
		elements = append(elements, slack.NewButtonBlockElement(fmt.Sprintf("button%d", i), b.Data,
			slack.NewTextBlockObject(slack.PlainTextType, b.Label, false, false)))
	}
	return slack.NewActionBlock("", elements...)
}

// sections cuts a text for section blocks, at the ends of lines where it can.
func sections(text string) (pieces []string) {
	for len([]rune(text)) > maxSection && len(pieces) < maxBlocks-2 {
		head := string([]rune(text)[:maxSection])
		if i := strings.LastIndexByte(head, '\n'); i > 0 {
			head = head[:i+1]
		}
		pieces, text = append(pieces, head), text[len(head):]
	}
	return append(pieces, text)
}

func blocksRejected(err error) bool {
	return err != nil && (strings.HasPrefix(err.Error(), "invalid_blocks") || err.Error() == "msg_blocks_too_long" || err.Error() == "too_many_blocks")
}

// Download implements gateway.Platform. The bot's token goes to Slack only.
func (p *Platform) Download(ctx context.Context, f gateway.Attachment) (io.ReadCloser, error) {
	link, err := url.Parse(f.ID)
	if err != nil || !p.ours(link) {
		return nil, fmt.Errorf("%w: the file is not on Slack", gateway.ErrRefused)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, link.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+p.BotToken)
	res, err := p.http.Do(req)
	if err != nil {
		return nil, p.failure(err)
	}
	if res.StatusCode != http.StatusOK {
		res.Body.Close()
		if res.StatusCode == http.StatusForbidden || res.StatusCode == http.StatusNotFound {
			return nil, fmt.Errorf("%w: Slack answered %s; the app needs the scope files:read", gateway.ErrRefused, res.Status)
		}
		return nil, fmt.Errorf("download a file: Slack answered %s", res.Status)
	}
	return res.Body, nil
}

// ours reports whether a URL is Slack's: on the host of the Web API, or below slack.com.
func (p *Platform) ours(link *url.URL) bool {
	base, err := url.Parse(p.URL)
	if err != nil {
		return false
	}
	return link.Scheme == base.Scheme && (link.Host == base.Host || link.Scheme == "https" && strings.HasSuffix(link.Hostname(), ".slack.com"))
}

func (p *Platform) checkRedirect(r *http.Request, via []*http.Request) error {
	if !p.ours(r.URL) || len(via) > 5 {
		return fmt.Errorf("%w: Slack redirects to another host", gateway.ErrRefused)
	}
	return nil
}

// failure translates an error into one of the gateway's, without tokens.
func (p *Platform) failure(err error) error {
	if err == nil {
		return nil
	}
	var file *api.Error // of a file that was to be sent
	var limited *slack.RateLimitedError
	var refused slack.SlackErrorResponse
	switch {
	case errors.As(err, &file), errors.Is(err, gateway.ErrRefused), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &limited):
		return &gateway.RetryError{After: limited.RetryAfter}
	case !errors.As(err, &refused):
		words := err.Error()
		for _, secret := range []string{p.BotToken, p.AppToken} {
			if secret != "" {
				words = strings.ReplaceAll(words, secret, "***")
			}
		}
		return errors.New(words)
	}
	kind := gateway.ErrRefused
	switch refused.Err {
	case "invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired":
		kind = gateway.ErrSignedOut
	case "channel_not_found", "not_in_channel", "is_archived", "restricted_action", "user_not_found", "cannot_dm_bot", "messages_tab_disabled":
		kind = gateway.ErrForbidden
	case "message_not_found", "cant_update_message", "edit_window_closed", "cant_delete_message":
		kind = gateway.ErrNoMessage
	case "file_upload_size_restricted", "file_uploads_disabled", "file_upload_size_exceeded":
		kind = gateway.ErrTooLarge
	case "internal_error", "fatal_error", "service_unavailable", "request_timeout", "ratelimited":
		return errors.New("Slack answered " + refused.Err)
	}
	return fmt.Errorf("%w: Slack answered %s", kind, refused.Err)
}
