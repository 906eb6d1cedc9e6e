package gatewaytest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	_ "image/jpeg" // sizes of photos
	_ "image/png"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"unicode/utf8"
)

// Limits of core.telegram.org/bots/api, written here on their own so that they check the gateway.
const (
	telegramText     = 4096
	telegramCaption  = 1024
	telegramPhoto    = 10 << 20
	telegramSides    = 10000
	telegramRatio    = 20
	telegramDownload = 20 << 20
	telegramData     = 64
)

type telegramMethod struct {
	send int // 1 for methods that count against the rates
	run  func(*Telegram, request) (any, *refusal)
}

var telegramMethods = map[string]telegramMethod{
	"getMe":               {0, (*Telegram).getMe},
	"setMyCommands":       {0, (*Telegram).setMyCommands},
	"getFile":             {0, (*Telegram).getFile},
	"answerCallbackQuery": {0, (*Telegram).answerPress},
	"sendChatAction":      {0, (*Telegram).chatAction},
	"setWebhook":          {0, (*Telegram).setWebhook},
	"deleteWebhook":       {0, (*Telegram).deleteWebhook},
	"deleteMessage":       {0, (*Telegram).deleteMessage},
	"sendMessage":         {1, (*Telegram).sendMessage},
	"sendPhoto":           {1, func(f *Telegram, q request) (any, *refusal) { return f.sendMedia(q, "photo") }},
	"sendDocument":        {1, func(f *Telegram, q request) (any, *refusal) { return f.sendMedia(q, "document") }},
	"sendMediaGroup":      {1, (*Telegram).sendMediaGroup},
	"editMessageText":     {1, (*Telegram).editText},
	"editMessageCaption":  {1, (*Telegram).editCaption},
}

func (f *Telegram) getMe(request) (any, *refusal) {
	return map[string]any{"id": 123456, "is_bot": true, "first_name": "Talaria", "username": "talaria_bot"}, nil
}

func (f *Telegram) setMyCommands(q request) (any, *refusal) {
	var commands []struct{ Command, Description string }
	if json.Unmarshal([]byte(q.fields["commands"]), &commands) != nil || len(commands) > 100 {
		return nil, bad("can't parse BotCommand")
	}
	for _, c := range commands {
		if c.Command == "" || len(c.Command) > 32 || strings.Trim(c.Command, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
			return nil, bad("BOT_COMMAND_INVALID")
		}
		if c.Description == "" || units(c.Description) > 256 {
			return nil, bad("BOT_COMMAND_DESCRIPTION_INVALID")
		}
	}
	return true, nil
}

func (f *Telegram) chat(q request) *refusal {
	c := f.chats[q.int("chat_id")]
	if c == nil {
		return bad("chat not found")
	}
	if c.blocked {
		return refuse(403, "Forbidden: bot was blocked by the user")
	}
	return nil
}

func (f *Telegram) chatAction(q request) (any, *refusal) {
	if err := f.chat(q); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(q.fields["action"], "upload_") && q.fields["action"] != "typing" {
		return nil, bad("wrong parameter action in request")
	}
	return true, nil
}

// parseText applies parse_mode. MarkdownV2 is refused: the gateway sends HTML or plain text only.
func parseText(source, mode string) (string, *refusal) {
	if !utf8.ValidString(source) {
		return "", bad("strings must be encoded in UTF-8")
	}
	switch strings.ToLower(mode) {
	case "":
		return strings.TrimSpace(source), nil
	case "html":
		text, err := parseTelegramHTML(source)
		return strings.TrimSpace(text), err
	}
	return "", bad("unsupported parse_mode")
}

func (f *Telegram) sendMessage(q request) (any, *refusal) {
	if err := f.chat(q); err != nil {
		return nil, err
	}
	m, err := f.compose(q, "text", q.fields["text"])
	switch {
	case err != nil:
		return nil, err
	case m.Text == "":
		return nil, bad("message text is empty")
	case units(m.Text) > telegramText:
		return nil, bad("message is too long")
	}
	return f.add(m), nil
}

// compose parses the text, the buttons and the target of a new message.
func (f *Telegram) compose(q request, kind, source string) (*Message, *refusal) {
	text, err := parseText(source, q.fields["parse_mode"])
	if err != nil {
		return nil, err
	}
	buttons, err := parseButtons(q.fields["reply_markup"])
	if err != nil {
		return nil, err
	}
	m := &Message{
		Chat: q.int("chat_id"), Thread: int(q.int("message_thread_id")), FromBot: true, Kind: kind,
		Text: text, Source: source, Mode: q.fields["parse_mode"], Buttons: buttons,
	}
	if m.Thread == 1 {
		return nil, bad("message thread not found") // the General topic has to be omitted
	}
	var reply struct {
		ID      int  `json:"message_id"`
		Without bool `json:"allow_sending_without_reply"`
	}
	_ = json.Unmarshal([]byte(q.fields["reply_parameters"]), &reply)
	if reply.ID != 0 {
		if to := f.find(m.Chat, reply.ID); to == nil && !reply.Without {
			return nil, bad("message to be replied not found")
		}
		m.ReplyTo = reply.ID
	}
	return m, nil
}

func parseButtons(markup string) ([][]Button, *refusal) {
	if markup == "" {
		return nil, nil
	}
	var keyboard struct {
		Rows [][]Button `json:"inline_keyboard"`
	}
	if json.Unmarshal([]byte(markup), &keyboard) != nil {
		return nil, bad("can't parse reply keyboard markup JSON object")
	}
	for _, row := range keyboard.Rows {
		for _, b := range row {
			if b.Text == "" || len(b.Data) > telegramData || b.Data == "" && b.URL == "" {
				return nil, bad("BUTTON_DATA_INVALID")
			}
		}
	}
	return keyboard.Rows, nil
}

// add appends a message to the record and returns it as the Bot API shows it.
func (f *Telegram) add(m *Message) map[string]any {
	m.ID, m.At = f.next, f.now()
	f.next++
	f.messages = append(f.messages, m)
	return f.wire(m)
}

func (f *Telegram) find(chat int64, id int) *Message {
	for _, m := range f.messages {
		if m.Chat == chat && m.ID == id && !m.Deleted {
			return m
		}
	}
	return nil
}

func (f *Telegram) editText(q request) (any, *refusal) {
	m := f.find(q.int("chat_id"), int(q.int("message_id")))
	switch {
	case m == nil:
		return nil, bad("message to edit not found")
	case !m.FromBot:
		return nil, bad("message can't be edited")
	case m.Kind != "text":
		return nil, bad("there is no text in the message to edit")
	}
	n, err := f.compose(q, "text", q.fields["text"])
	switch {
	case err != nil:
		return nil, err
	case n.Text == "":
		return nil, bad("message text is empty")
	case units(n.Text) > telegramText:
		return nil, bad("MESSAGE_TOO_LONG")
	case n.Source == m.Source && n.Mode == m.Mode && fmt.Sprint(n.Buttons) == fmt.Sprint(m.Buttons):
		return nil, bad("message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message")
	}
	m.Edits = append(m.Edits, m.Text)
	m.Text, m.Source, m.Mode, m.Buttons = n.Text, n.Source, n.Mode, n.Buttons
	return f.wire(m), nil
}

func (f *Telegram) editCaption(q request) (any, *refusal) {
	m := f.find(q.int("chat_id"), int(q.int("message_id")))
	switch {
	case m == nil:
		return nil, bad("message to edit not found")
	case !m.FromBot:
		return nil, bad("message can't be edited")
	case m.Kind == "text":
		return nil, bad("there is no caption in the message to edit")
	}
	n, err := f.compose(q, m.Kind, q.fields["caption"])
	switch {
	case err != nil:
		return nil, err
	case units(n.Text) > telegramCaption:
		return nil, bad("message caption is too long")
	case n.Source == m.Source && n.Mode == m.Mode:
		return nil, bad("message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message")
	}
	m.Edits = append(m.Edits, m.Text)
	m.Text, m.Source, m.Mode = n.Text, n.Source, n.Mode
	return f.wire(m), nil
}

func (f *Telegram) deleteMessage(q request) (any, *refusal) {
	m := f.find(q.int("chat_id"), int(q.int("message_id")))
	switch {
	case m == nil:
		return nil, bad("message to delete not found")
	case !m.FromBot:
		return nil, bad("message can't be deleted")
	}
	m.Deleted = true
	return true, nil
}

func (f *Telegram) sendMedia(q request, kind string) (any, *refusal) {
	if err := f.chat(q); err != nil {
		return nil, err
	}
	m, err := f.compose(q, kind, q.fields["caption"])
	if err != nil {
		return nil, err
	}
	m.File, err = q.upload(q.fields[kind], kind)
	if err != nil {
		return nil, err
	}
	return f.addMedia(m)
}

func (f *Telegram) addMedia(m *Message) (any, *refusal) {
	if err := checkMedia(m); err != nil {
		return nil, err
	}
	m.File.ID = fmt.Sprintf("file%d", f.next)
	f.files[m.File.ID] = m.File
	return f.add(m), nil
}

func (f *Telegram) sendMediaGroup(q request) (any, *refusal) {
	if err := f.chat(q); err != nil {
		return nil, err
	}
	var media []struct {
		Type, Media, Caption string
		Mode                 string `json:"parse_mode"`
	}
	if json.Unmarshal([]byte(q.fields["media"]), &media) != nil {
		return nil, bad("can't parse media JSON object")
	}
	if len(media) < 2 || len(media) > albumMembers {
		return nil, bad("an album needs 2-10 items, this one has %d", len(media))
	}
	var album []*Message
	for _, item := range media {
		if item.Type != media[0].Type {
			return nil, bad("photo can't be mixed with other media types")
		}
		q.fields["parse_mode"] = item.Mode
		m, err := f.compose(q, item.Type, item.Caption)
		if err != nil {
			return nil, err
		}
		if m.File, err = q.upload(item.Media, item.Type); err != nil {
			return nil, err
		}
		if err := checkMedia(m); err != nil {
			return nil, err
		}
		m.Album = fmt.Sprintf("album%d", f.next)
		album = append(album, m)
	}
	var result []any
	for _, m := range album {
		shown, err := f.addMedia(m)
		if err != nil {
			return nil, err
		}
		result = append(result, shown)
	}
	return result, nil
}

// upload returns the file that a field refers to, by attach:// or by the field's own name.
func (q request) upload(reference, field string) (File, *refusal) {
	if name, ok := strings.CutPrefix(reference, "attach://"); ok {
		field = name
	}
	file, ok := q.files[field]
	if !ok || len(file.Data) == 0 {
		return File{}, bad("there is no %s in the request", field)
	}
	return file, nil
}

func checkMedia(m *Message) *refusal {
	if units(m.Text) > telegramCaption {
		return bad("message caption is too long")
	}
	if m.Kind == "document" {
		if len(m.File.Data) > telegramUpload {
			return refuse(413, "Request Entity Too Large")
		}
		return nil
	}
	if m.Kind != "photo" {
		return bad("unsupported media type %q", m.Kind)
	}
	if len(m.File.Data) > telegramPhoto {
		return bad("file is too big for a photo: the maximum size is %d bytes", telegramPhoto)
	}
	c, _, err := image.DecodeConfig(bytes.NewReader(m.File.Data))
	if err != nil {
		return bad("IMAGE_PROCESS_FAILED")
	}
	if c.Width+c.Height > telegramSides || c.Width > telegramRatio*c.Height || c.Height > telegramRatio*c.Width {
		return bad("PHOTO_INVALID_DIMENSIONS")
	}
	return nil
}

func (f *Telegram) getFile(q request) (any, *refusal) {
	file, ok := f.files[q.fields["file_id"]]
	switch {
	case !ok:
		return nil, bad("invalid file_id")
	case file.size() > telegramDownload:
		return nil, bad("file is too big")
	}
	return map[string]any{"file_id": file.ID, "file_unique_id": file.ID, "file_size": file.size(), "file_path": "documents/" + file.ID}, nil
}

func (file File) size() int64 { return max(file.Declared, int64(len(file.Data))) }

func (f *Telegram) download(w http.ResponseWriter, path string) {
	f.mu.Lock()
	file, ok := f.files[strings.TrimPrefix(path, "documents/")]
	f.mu.Unlock()
	if !ok {
		http.Error(w, "Not Found", http.StatusNotFound)
		return
	}
	_, _ = w.Write(file.Data)
}

// readForm reads the parts of a multipart request; uploads are held in memory.
func (q request) readForm(r *http.Request) *refusal {
	form, err := r.MultipartReader()
	if err != nil {
		return bad("can't parse multipart form")
	}
	for {
		part, err := form.NextPart()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = q.readPart(part)
		}
		if err != nil {
			var large *http.MaxBytesError
			if asLarge(err, &large) {
				return refuse(413, "Request Entity Too Large")
			}
			if !errors.Is(err, io.EOF) { // whoever sent it was killed
				return bad("the request broke off")
			}
			return nil // a request without parameters has an empty form
		}
	}
}

func (q request) readPart(part *multipart.Part) error {
	data, err := io.ReadAll(part)
	if err != nil {
		return err
	}
	if part.FileName() == "" {
		q.fields[part.FormName()] = string(data)
		return nil
	}
	q.files[part.FormName()] = File{Name: part.FileName(), Type: http.DetectContentType(data), Data: data}
	return nil
}
