// Package telegram implements gateway.Platform with Telegram's Bot API, by long polling or by a webhook.
package telegram

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"

	"talaria/api"
	"talaria/gateway"
)

const (
	defaultURL  = "https://api.telegram.org"
	pollTime    = 50 * time.Second
	callTime    = 60 * time.Second // beyond it a request has failed
	fileTime    = 5 * time.Minute  // and beyond this, one with a file
	maxUpdate   = 1 << 20          // bytes of an update
	maxUpdates  = 16 << 20         // bytes of an answer with up to 100 of them
	maxToast    = 200              // UTF-16 units of an answer to a press
	generalID   = 1                // of a forum's General topic, which must not be named when sending
	maxMenuText = 256
)

// Config is a bot account.
type Config struct {
	Token string
	// WebhookURL is where Telegram sends updates, with the secret; "" for long polling. Requests reach ServeHTTP.
	WebhookURL    string
	WebhookSecret string
	// URL is the address of the Bot API; "" for Telegram's own.
	URL string
	// HTTP makes the requests; nil for a client of its own.
	HTTP bot.HttpClient
	Log  *slog.Logger // nil for none
}

// errUnreadable means that an update cannot be decoded, and never will be.
var errUnreadable = errors.New("the update cannot be decoded")

// Platform is a bot account. It is safe for concurrent use. As an [http.Handler] it takes the updates of a webhook.
type Platform struct {
	Config
	bot *bot.Bot

	mu      sync.Mutex // guards what follows
	account gateway.Account
	id      int64
	take    func(context.Context, gateway.Update) error // of the running Receive
}

// New makes a platform. Nothing is sent yet.
func New(c Config) (*Platform, error) {
	if c.URL == "" {
		c.URL = defaultURL
	}
	if c.HTTP == nil {
		c.HTTP = &http.Client{Timeout: fileTime}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.WebhookURL != "" && c.WebhookSecret == "" {
		return nil, errors.New("a webhook needs a secret, so that nobody else can send updates")
	}
	b, err := bot.New(c.Token, bot.WithSkipGetMe(), bot.WithServerURL(c.URL), bot.WithHTTPClient(callTime, c.HTTP),
		bot.WithErrorsHandler(func(error) {})) // these errors are also returned
	if err != nil {
		return nil, errors.New("the bot's token is empty")
	}
	return &Platform{Config: c, bot: b}, nil
}

// Name implements gateway.Platform.
func (*Platform) Name() string { return "telegram" }

// Target implements gateway.Platform.
func (*Platform) Target() api.RenderTarget { return api.RenderTelegram }

// Open implements gateway.Platform.
func (p *Platform) Open(ctx context.Context, commands []gateway.Command) (gateway.Account, error) {
	me, err := p.bot.GetMe(ctx)
	if err != nil {
		return gateway.Account{}, p.failure(err)
	}
	menu := &bot.SetMyCommandsParams{}
	for _, c := range commands {
		menu.Commands = append(menu.Commands, models.BotCommand{Command: c.Name, Description: c.About[:min(len(c.About), maxMenuText)]})
	}
	if _, err := p.bot.SetMyCommands(ctx, menu); err != nil {
		return gateway.Account{}, p.failure(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.id, p.account = me.ID, gateway.Account{ID: strconv.FormatInt(me.ID, 10), Name: me.Username}
	return p.account, nil
}

// Receive implements gateway.Platform.
func (p *Platform) Receive(ctx context.Context, position string, take func(context.Context, gateway.Update) error) error {
	if p.WebhookURL != "" {
		return p.receiveHook(ctx, take)
	}
	if _, err := p.bot.DeleteWebhook(ctx, &bot.DeleteWebhookParams{}); err != nil {
		return p.failure(err)
	}
	offset, _ := strconv.ParseInt(position, 10, 64)
	for {
		updates, err := p.poll(ctx, offset)
		if err != nil {
			return err
		}
		for _, raw := range updates {
			u, id, err := p.read(raw)
			if errors.Is(err, errUnreadable) { // it is confirmed, since it would come back for ever
				p.Log.WarnContext(ctx, "an update is skipped", "update", id, "error", err)
			} else if err != nil {
				return err
			}
			offset = id + 1 // also if it is lower: after a week without updates, Telegram goes on with a random id
			u.Position = strconv.FormatInt(offset, 10)
			if err := take(ctx, u); err != nil {
				return err
			}
		}
	}
}

// poll asks for updates from an offset on, which confirms all before it. The library would confirm an update while it is being
// handled, so that a crash loses it.
func (p *Platform) poll(ctx context.Context, offset int64) ([]json.RawMessage, error) {
	body, err := json.Marshal(map[string]any{
		"offset": offset, "timeout": int(pollTime.Seconds()), "allowed_updates": []string{"message", "callback_query"},
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL+"/bot"+p.Token+"/getUpdates", bytes.NewReader(body))
	if err != nil {
		return nil, p.failure(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := p.HTTP.Do(req)
	if err != nil {
		return nil, p.failure(err)
	}
	defer res.Body.Close()
	var answer struct {
		OK          bool              `json:"ok"`
		Result      []json.RawMessage `json:"result"`
		Code        int               `json:"error_code"`
		Description string            `json:"description"`
		Parameters  struct {
			RetryAfter int `json:"retry_after"`
		} `json:"parameters"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxUpdates)).Decode(&answer); err != nil {
		return nil, p.failure(fmt.Errorf("receive updates: %w", err))
	}
	switch {
	case answer.OK:
		return answer.Result, nil
	case answer.Code == http.StatusUnauthorized || answer.Code == http.StatusNotFound:
		return nil, gateway.ErrSignedOut
	case answer.Code == http.StatusTooManyRequests:
		return nil, &gateway.RetryError{After: time.Duration(answer.Parameters.RetryAfter) * time.Second}
	case answer.Code == http.StatusConflict:
		return nil, errors.New("another program receives the updates of this bot; stop it")
	}
	return nil, fmt.Errorf("receive updates: Telegram answered %d %s", answer.Code, answer.Description)
}

// receiveHook makes Telegram send updates to ServeHTTP until ctx ends.
func (p *Platform) receiveHook(ctx context.Context, take func(context.Context, gateway.Update) error) error {
	p.mu.Lock()
	p.take = take
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.take = nil
	}()
	if _, err := p.bot.SetWebhook(ctx, &bot.SetWebhookParams{
		URL: p.WebhookURL, SecretToken: p.WebhookSecret, AllowedUpdates: []string{"message", "callback_query"},
	}); err != nil {
		return p.failure(err)
	}
	<-ctx.Done()
	return ctx.Err()
}

// ServeHTTP takes an update of the webhook. It answers 200 once the update is stored; otherwise Telegram sends it again.
func (p *Platform) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	given := sha256.Sum256([]byte(r.Header.Get("X-Telegram-Bot-Api-Secret-Token")))
	wanted := sha256.Sum256([]byte(p.WebhookSecret))
	if p.WebhookSecret == "" || subtle.ConstantTimeCompare(given[:], wanted[:]) != 1 {
		http.Error(w, "the secret is wrong", http.StatusUnauthorized)
		return
	}
	if r.Method != http.MethodPost {
		http.Error(w, "send updates with POST", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxUpdate))
	if err != nil {
		http.Error(w, "the update cannot be read", http.StatusBadRequest)
		return
	}
	u, id, err := p.read(body)
	switch {
	case errors.Is(err, errUnreadable):
		p.Log.WarnContext(r.Context(), "an update is skipped", "update", id, "error", err)
		return
	case err != nil:
		http.Error(w, "not a Telegram update", http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	take := p.take
	p.mu.Unlock()
	if take == nil {
		http.Error(w, "the bot is not ready", http.StatusServiceUnavailable)
		return
	}
	if err := take(r.Context(), u); err != nil {
		http.Error(w, "the update could not be stored", http.StatusInternalServerError)
	}
}

// read decodes an update. One that is neither a message nor a press has no sender. The error is errUnreadable if only its id can be
// read.
func (p *Platform) read(raw []byte) (u gateway.Update, id int64, err error) {
	var head struct {
		ID *int64 `json:"update_id"`
	}
	if err := json.Unmarshal(raw, &head); err != nil || head.ID == nil {
		return u, 0, errors.Join(errors.New("an update has no id"), err)
	}
	u.ID = "telegram:" + p.self() + ":" + strconv.FormatInt(*head.ID, 10)
	var update models.Update
	if err := json.Unmarshal(raw, &update); err != nil {
		return u, *head.ID, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	switch {
	case update.Message != nil:
		p.readMessage(&u, update.Message)
	case update.CallbackQuery != nil && update.CallbackQuery.Message.Message != nil:
		q := update.CallbackQuery
		m := q.Message.Message
		u.Chat, u.From, u.MessageID = chatOf(m), personOf(&q.From), strconv.Itoa(m.ID)
		u.Press = &gateway.Press{ID: q.ID, Data: q.Data}
	}
	return u, update.ID, nil
}

func (p *Platform) self() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.account.ID
}

func (p *Platform) readMessage(u *gateway.Update, m *models.Message) {
	p.mu.Lock()
	account, id := p.account, p.id
	p.mu.Unlock()
	if m.From == nil || m.SenderChat != nil && m.SenderChat.ID != m.Chat.ID { // sent on behalf of a channel
		return
	}
	u.Chat, u.From, u.MessageID = chatOf(m), personOf(m.From), strconv.Itoa(m.ID)
	u.Text = m.Text + m.Caption
	mention := "@" + account.Name
	mentioned := false
	for _, e := range append(m.Entities, m.CaptionEntities...) {
		named := part(m.Text+m.Caption, e.Offset, e.Length)
		mentioned = mentioned || e.Type == models.MessageEntityTypeMention && strings.EqualFold(named, mention) ||
			e.Type == models.MessageEntityTypeTextMention && e.User != nil && e.User.ID == id ||
			e.Type == models.MessageEntityTypeBotCommand && strings.HasSuffix(strings.ToLower(named), strings.ToLower(mention))
	}
	if m.ReplyToMessage != nil && m.ReplyToMessage.From != nil && m.ReplyToMessage.From.ID == id {
		u.ReplyTo, mentioned = strconv.Itoa(m.ReplyToMessage.ID), true
	}
	u.Addressed = mentioned || !u.Chat.Group
	if rest, ok := cutFold(u.Text, mention); ok {
		u.Text = strings.TrimLeft(rest, " \n")
	}
	switch {
	case m.Document != nil:
		u.Files = []gateway.Attachment{{ID: m.Document.FileID, Name: m.Document.FileName, Size: m.Document.FileSize}}
	case len(m.Photo) > 0: // the last one is the largest
		photo := m.Photo[len(m.Photo)-1]
		u.Files = []gateway.Attachment{{ID: photo.FileID, Name: "photo-" + strconv.Itoa(m.ID) + ".jpg", Size: int64(photo.FileSize)}}
	case m.Audio != nil:
		u.Files = []gateway.Attachment{{ID: m.Audio.FileID, Name: m.Audio.FileName, Size: m.Audio.FileSize}}
	case m.Video != nil:
		u.Files = []gateway.Attachment{{ID: m.Video.FileID, Name: m.Video.FileName, Size: m.Video.FileSize}}
	case m.Voice != nil:
		u.Files = []gateway.Attachment{{ID: m.Voice.FileID, Name: "voice-" + strconv.Itoa(m.ID) + ".ogg", Size: m.Voice.FileSize}}
	}
	if u.Text == "" && len(u.Files) == 0 { // such as a sticker, or somebody who joined
		u.Addressed = false
	}
}

// part returns a part of a text whose place is given in UTF-16 units.
func part(text string, offset, length int) string {
	var b strings.Builder
	at := 0
	for _, r := range text {
		if at >= offset && at < offset+length {
			b.WriteRune(r)
		}
		at++
		if r > 0xFFFF {
			at++
		}
	}
	return b.String()
}

func cutFold(text, prefix string) (rest string, ok bool) {
	if len(text) >= len(prefix) && strings.EqualFold(text[:len(prefix)], prefix) {
		return text[len(prefix):], true
	}
	return text, false
}

func chatOf(m *models.Message) gateway.Chat {
	c := gateway.Chat{ID: strconv.FormatInt(m.Chat.ID, 10), Group: m.Chat.Type != models.ChatTypePrivate}
	if m.IsTopicMessage && m.MessageThreadID != 0 {
		c.Thread = strconv.Itoa(m.MessageThreadID)
	}
	return c
}

func personOf(u *models.User) gateway.Person {
	return gateway.Person{ID: strconv.FormatInt(u.ID, 10), Name: strings.TrimSpace(u.FirstName + " " + u.LastName), Bot: u.IsBot}
}

// failure translates an error into one of the gateway's, without the token.
func (p *Platform) failure(err error) error {
	if err == nil {
		return nil
	}
	var many *bot.TooManyRequestsError
	if errors.As(err, &many) {
		return &gateway.RetryError{After: time.Duration(many.RetryAfter) * time.Second}
	}
	var file *api.Error // of a file that was to be sent
	if errors.As(err, &file) {
		return err
	}
	words := strings.ReplaceAll(err.Error(), p.Token, "***")
	kind := error(nil)
	has := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(words, part) {
				return true
			}
		}
		return false
	}
	var cut *url.Error
	var moved *bot.MigrateError
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.As(err, &cut):
		return &hidden{words, err}
	case errors.Is(err, bot.ErrorUnauthorized), errors.Is(err, bot.ErrorNotFound):
		kind = gateway.ErrSignedOut
	case has("not enough rights to send photos"): // a document may be allowed
		kind = gateway.ErrMedia
	case has("not enough rights to send documents"): // and a text
		kind = gateway.ErrRefused
	case errors.Is(err, bot.ErrorForbidden), errors.As(err, &moved), has("chat not found", "not enough rights", "message thread not found", "TOPIC_CLOSED"):
		kind = gateway.ErrForbidden
	case has("message to edit not found", "message to delete not found", "message can't be deleted", "MESSAGE_ID_INVALID", "message can't be edited", "there is no text in the message",
		"there is no caption in the message"):
		kind = gateway.ErrNoMessage
	case has("can't parse entities", "unsupported parse_mode"):
		kind = gateway.ErrMarkup
	case has("Request Entity Too Large", "file is too big"):
		kind = gateway.ErrTooLarge
		if has("for a photo") {
			kind = gateway.ErrMedia
		}
	case has("PHOTO_INVALID_DIMENSIONS", "IMAGE_PROCESS_FAILED", "PHOTO_SAVE_FILE_INVALID", "PHOTO_EXT_INVALID", "wrong type of the web page"):
		kind = gateway.ErrMedia
	case errors.Is(err, bot.ErrorBadRequest):
		kind = gateway.ErrRefused
	default:
		return &hidden{words, err}
	}
	return fmt.Errorf("%w: %s", kind, words)
}

// hidden is an error whose text does not contain the token.
type hidden struct {
	words string
	err   error
}

// Error implements error.
func (e *hidden) Error() string { return e.words }

// Unwrap gives what is behind it for errors.Is.
func (e *hidden) Unwrap() error {
	for _, known := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(e.err, known) {
			return known
		}
	}
	return nil
}
