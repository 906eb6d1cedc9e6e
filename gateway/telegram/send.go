package telegram

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"

	"talaria/api"
	"talaria/gateway"
)

// candidates is how many ids Find tries. Ids between two messages of a chat may belong to other chats with the bot.
const candidates = 10

// address returns a chat and its topic as requests name them.
func address(c gateway.Chat) (chat int64, thread int, err error) {
	if chat, err = strconv.ParseInt(c.ID, 10, 64); err != nil {
		return 0, 0, fmt.Errorf("%w: %q is not a Telegram chat", gateway.ErrRefused, c.ID)
	}
	thread, _ = strconv.Atoi(c.Thread)
	return chat, thread, nil
}

// spoken returns the topic as messages name it: the General topic must be omitted.
func spoken(thread int) int {
	if thread == generalID {
		return 0
	}
	return thread
}

func mode(f api.RenderFormat) models.ParseMode {
	if f == api.RenderHTML {
		return models.ParseModeHTML
	}
	return ""
}

// markup returns the buttons of a message, or the request to reply to it; nil for neither.
func markup(m gateway.Message, group bool) models.ReplyMarkup {
	if len(m.Buttons) > 0 {
		row := make([]models.InlineKeyboardButton, 0, len(m.Buttons))
		for _, b := range m.Buttons {
			row = append(row, models.InlineKeyboardButton{Text: b.Label, CallbackData: b.Data})
		}
		return &models.InlineKeyboardMarkup{InlineKeyboard: [][]models.InlineKeyboardButton{row}}
	}
	if m.Asks && group { // only replies reach the bot there
		return &models.ForceReply{ForceReply: true}
	}
	return nil
}

func reply(m gateway.Message) *models.ReplyParameters {
	id, err := strconv.Atoi(m.ReplyTo)
	if err != nil {
		return nil
	}
	return &models.ReplyParameters{MessageID: id, AllowSendingWithoutReply: true}
}

// noPreview keeps Telegram from loading the pages that a text links to.
func noPreview() *models.LinkPreviewOptions {
	disabled := true
	return &models.LinkPreviewOptions{IsDisabled: &disabled}
}

// Send implements gateway.Platform.
func (p *Platform) Send(ctx context.Context, to gateway.Chat, m gateway.Message) (id string, err error) {
	chat, thread, err := address(to)
	if err != nil {
		return "", err
	}
	if len(m.Files) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callTime)
		defer cancel()
	}
	var sent *models.Message
	switch {
	case len(m.Files) == 0:
		sent, err = p.bot.SendMessage(ctx, &bot.SendMessageParams{
			ChatID: chat, MessageThreadID: spoken(thread), Text: m.Text, ParseMode: mode(m.Format), ReplyMarkup: markup(m, to.Group),
			ReplyParameters: reply(m), LinkPreviewOptions: noPreview(),
		})
	case len(m.Files) > 1:
		return p.sendAlbum(ctx, chat, spoken(thread), m)
	default:
		sent, err = p.sendFile(ctx, chat, spoken(thread), m)
	}
	if err != nil {
		return "", p.failure(err)
	}
	return strconv.Itoa(sent.ID), nil
}

// content is a reader as the library needs it: a pointer, since it checks for nil by reflection.
type content struct{ io.Reader }

func (p *Platform) sendFile(ctx context.Context, chat int64, thread int, m gateway.Message) (*models.Message, error) {
	in, err := m.Files[0].Open(ctx)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	file := &models.InputFileUpload{Filename: m.Files[0].Name, Data: &content{in}}
	if m.Photos {
		return p.bot.SendPhoto(ctx, &bot.SendPhotoParams{
			ChatID: chat, MessageThreadID: thread, Photo: file, Caption: m.Text, ParseMode: mode(m.Format), ReplyParameters: reply(m),
		})
	}
	return p.bot.SendDocument(ctx, &bot.SendDocumentParams{
		ChatID: chat, MessageThreadID: thread, Document: file, Caption: m.Text, ParseMode: mode(m.Format), ReplyParameters: reply(m),
		DisableContentTypeDetection: true,
	})
}

func (p *Platform) sendAlbum(ctx context.Context, chat int64, thread int, m gateway.Message) (id string, err error) {
	params := &bot.SendMediaGroupParams{ChatID: chat, MessageThreadID: thread, ReplyParameters: reply(m)}
	for i, f := range m.Files {
		in, err := f.Open(ctx)
		if err != nil {
			return "", err
		}
		defer in.Close()
		photo := &models.InputMediaPhoto{Media: fmt.Sprintf("attach://file%d", i), MediaAttachment: &content{in}}
		if i == 0 {
			photo.Caption, photo.ParseMode = m.Text, mode(m.Format)
		}
		params.Media = append(params.Media, photo)
	}
	sent, err := p.bot.SendMediaGroup(ctx, params)
	if err != nil {
		return "", p.failure(err)
	}
	if len(sent) == 0 {
		return "", nil
	}
	return strconv.Itoa(sent[len(sent)-1].ID), nil
}

// Edit implements gateway.Platform.
func (p *Platform) Edit(ctx context.Context, in gateway.Chat, id string, m gateway.Message) error {
	chat, _, err := address(in)
	if err != nil {
		return err
	}
	message, err := strconv.Atoi(id)
	if err != nil {
		return gateway.ErrNoMessage
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	_, err = p.bot.EditMessageText(ctx, &bot.EditMessageTextParams{
		ChatID: chat, MessageID: message, Text: m.Text, ParseMode: mode(m.Format), ReplyMarkup: markup(m, false), LinkPreviewOptions: noPreview(),
	})
	if err != nil && strings.Contains(err.Error(), "message is not modified") {
		return nil
	}
	return p.failure(err)
}

// Delete implements gateway.Platform.
func (p *Platform) Delete(ctx context.Context, in gateway.Chat, id string) error {
	chat, _, err := address(in)
	if err != nil {
		return err
	}
	message, err := strconv.Atoi(id)
	if err != nil {
		return gateway.ErrNoMessage
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	_, err = p.bot.DeleteMessage(ctx, &bot.DeleteMessageParams{ChatID: chat, MessageID: message})
	return p.failure(err)
}

// Find implements gateway.Finder. The Bot API cannot read messages, but it refuses an edit that changes nothing with an error of its
// own, and an edit of a message that does not exist, or that is not the bot's, with others. Find works in private chats only: in a
// group, the next message may be one of another topic, which an edit would change. Private chats share one sequence of ids, so
// Find may miss a message while the bot is busy in others.
func (p *Platform) Find(ctx context.Context, in gateway.Chat, after string, m gateway.Message, turn func(context.Context) error) (string, error) {
	chat, _, err := address(in)
	if err != nil {
		return "", err
	}
	last, err := strconv.Atoi(after)
	if err != nil || in.Group || in.Thread != "" {
		return "", nil
	}
	for id := last + 1; id <= last+candidates; id++ {
		if err := turn(ctx); err != nil {
			return "", err
		}
		if len(m.Files) == 0 {
			_, err = p.bot.EditMessageText(ctx, &bot.EditMessageTextParams{
				ChatID: chat, MessageID: id, Text: m.Text, ParseMode: mode(m.Format), ReplyMarkup: markup(m, false), LinkPreviewOptions: noPreview(),
			})
		} else {
			_, err = p.bot.EditMessageCaption(ctx, &bot.EditMessageCaptionParams{
				ChatID: chat, MessageID: id, Caption: m.Text, ParseMode: mode(m.Format),
			})
		}
		if err == nil || strings.Contains(err.Error(), "message is not modified") {
			return strconv.Itoa(id + max(0, len(m.Files)-1)), nil
		}
		if failed := p.failure(err); !errors.Is(failed, gateway.ErrNoMessage) && !errors.Is(failed, gateway.ErrRefused) {
			return "", failed
		}
	}
	return "", nil
}

// Acknowledge implements gateway.Platform.
func (p *Platform) Acknowledge(ctx context.Context, press gateway.Press, notice string) error {
	for utf16Len(notice) > maxToast {
		notice = strings.ToValidUTF8(notice[:len(notice)-1], "")
	}
	_, err := p.bot.AnswerCallbackQuery(ctx, &bot.AnswerCallbackQueryParams{CallbackQueryID: press.ID, Text: notice})
	return p.failure(err)
}

func utf16Len(s string) (n int) {
	for _, r := range s {
		n++
		if r > 0xFFFF {
			n++
		}
	}
	return n
}

// Typing implements gateway.Platform.
func (p *Platform) Typing(ctx context.Context, in gateway.Chat) error {
	chat, thread, err := address(in)
	if err != nil {
		return err
	}
	_, err = p.bot.SendChatAction(ctx, &bot.SendChatActionParams{ChatID: chat, MessageThreadID: thread, Action: models.ChatActionTyping})
	return p.failure(err)
}

// Download implements gateway.Platform.
func (p *Platform) Download(ctx context.Context, f gateway.Attachment) (io.ReadCloser, error) {
	file, err := p.bot.GetFile(ctx, &bot.GetFileParams{FileID: f.ID})
	if err != nil {
		return nil, p.failure(err)
	}
	link, err := url.Parse(p.bot.FileDownloadLink(file))
	if err != nil {
		return nil, p.failure(err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTime) // for at most 20 MB
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, link.String(), nil)
	if err != nil {
		cancel()
		return nil, p.failure(err)
	}
	res, err := p.HTTP.Do(req)
	if err != nil {
		cancel()
		return nil, p.failure(err)
	}
	if res.StatusCode != http.StatusOK {
		cancel()
		res.Body.Close()
		if res.StatusCode == http.StatusNotFound {
			return nil, fmt.Errorf("%w: Telegram no longer has the file", gateway.ErrRefused)
		}
		return nil, fmt.Errorf("download a file: Telegram answered %s", res.Status)
	}
	return &timed{res.Body, cancel}, nil
}

// timed is a body whose time is limited until Close.
type timed struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (t *timed) Close() error {
	defer t.cancel()
	return t.ReadCloser.Close()
}
