package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"talaria/api"
)

// Platform is one bot account on a chat platform. Its methods are safe for concurrent use.
//
// A method returns one of the errors below if the platform gives that reason; any other error may be temporary. If ctx ends, its
// error is returned.
type Platform interface {
	// Name is "telegram" or "slack": the first part of the keys of its chats.
	Name() string
	// Target is what executions are rendered for.
	Target() api.RenderTarget
	// Open signs in, makes the commands known, and returns the account.
	Open(ctx context.Context, commands []Command) (Account, error)
	// Receive calls take for each update after a position, one at a time, until ctx ends or it fails. position is that of the last
	// stored update, "" at first. An update is confirmed to the platform only after take has returned nil.
	Receive(ctx context.Context, position string, take func(context.Context, Update) error) error
	// Send sends a message and returns the id by which it is edited.
	Send(ctx context.Context, to Chat, m Message) (id string, err error)
	// Edit replaces the text and the buttons of a message. It succeeds if the message has them already.
	Edit(ctx context.Context, in Chat, id string, m Message) error
	// Delete deletes a message of the bot.
	Delete(ctx context.Context, in Chat, id string) error
	// Acknowledge ends the waiting of whoever pressed a button. notice, if not empty, is shown to them alone.
	Acknowledge(ctx context.Context, p Press, notice string) error
	// Download opens a file that somebody sent. The caller closes it.
	Download(ctx context.Context, f Attachment) (io.ReadCloser, error)
	// Typing shows for some seconds that the bot is at work, where the platform can.
	Typing(ctx context.Context, in Chat) error
}

// Finder is a Platform that can find out whether a message arrived if the answer to the request was lost.
type Finder interface {
	// Find looks for a message of the bot that came soon after the one with the id after and was not edited since. It calls turn
	// before each request. The id is "" if nothing is found.
	Find(ctx context.Context, in Chat, after string, m Message, turn func(context.Context) error) (id string, err error)
}

// Errors of a Platform.
var (
	// ErrMarkup: the platform rejects the text in its format.
	ErrMarkup = errors.New("the platform rejected the markup")
	// ErrNoMessage: the message no longer exists, or cannot be changed any more.
	ErrNoMessage = errors.New("the message no longer exists")
	// ErrMedia: the platform rejects the file as a photo.
	ErrMedia = errors.New("the platform rejected the photo")
	// ErrTooLarge: the platform rejects a file of that size.
	ErrTooLarge = errors.New("the file is too large for the platform")
	// ErrForbidden: the bot may not write to the chat.
	ErrForbidden = errors.New("the bot may not write to this chat")
	// ErrRefused: the platform rejects the message, and would reject it later too.
	ErrRefused = errors.New("the platform rejected the message")
	// ErrSignedOut: the platform rejects the bot's token.
	ErrSignedOut = errors.New("the platform rejected the bot's token")
)

// RetryError is the platform's request to send nothing to the chat for a while.
type RetryError struct{ After time.Duration }

// Error implements error.
func (e *RetryError) Error() string { return fmt.Sprintf("too many messages; retry after %v", e.After) }

// Account is the bot's own.
type Account struct {
	ID   string // unique on the platform
	Name string // as people mention it, without the @
}

// Command is a command that people can choose from a menu.
type Command struct{ Name, About string }

// Chat is where messages go: a chat, or a topic or thread of it.
type Chat struct {
	ID     string `json:"id"`
	Thread string `json:"thread,omitzero"`
	Group  bool   `json:"group,omitzero"` // more people than one, and the bot
}

// Person is somebody who writes to the bot.
type Person struct {
	ID   string `json:"id"`
	Name string `json:"name"` // for people to read; not unique
	Bot  bool   `json:"bot,omitzero"`
}

// Update is what happened on the platform: a message, or a press of a button.
type Update struct {
	// ID is the same when the platform reports the same thing twice.
	ID string `json:"id"`
	// Position is where Receive continues after this update.
	Position string `json:"position,omitzero"`
	Chat     Chat   `json:"chat"`
	From     Person `json:"from"`
	// MessageID is of the message itself, or of the one with the button.
	MessageID string `json:"message_id"`
	// ReplyTo is the id of the message that this one replies to.
	ReplyTo string `json:"reply_to,omitzero"`
	// Text is what was written, without a mention of the bot at its start.
	Text string `json:"text,omitzero"`
	// Addressed: written to the bot in person, or with its name, or as a reply to it.
	Addressed bool `json:"addressed,omitzero"`
	// Follows: written in a thread, without addressing anybody. It is for the bot if the bot was addressed in the thread before.
	Follows bool         `json:"follows,omitzero"`
	Files   []Attachment `json:"files,omitzero"`
	Press   *Press       `json:"press,omitzero"`
	// Answers is the request of the question that the text answers; the gateway sets it.
	Answers string `json:"answers,omitzero"`
}

// Attachment is a file that somebody sent.
type Attachment struct {
	ID   string `json:"id"`
	Name string `json:"name"` // as the sender called it: hostile
	Size int64  `json:"size"` // as the platform says
	// Saved is its name in the workspace; the gateway sets it.
	Saved string `json:"saved,omitzero"`
}

// Press is a press of a button.
type Press struct {
	ID   string `json:"id"`
	Data string `json:"data"`
}

// Button is below a message. Data comes back with its press; it has at most 64 bytes.
type Button struct {
	Label string `json:"label"`
	Data  string `json:"data"`
}

// Message is what the bot writes: a text, or files with a caption in Text.
type Message struct {
	// Key is the same for each attempt to send the message, and no other message has it. Platforms that can store it with the
	// message find it by that.
	Key     string           `json:"-"`
	Text    string           `json:"text,omitzero"`
	Format  api.RenderFormat `json:"format,omitzero"` // of Text; RenderUnformatted for none
	Buttons []Button         `json:"buttons,omitzero"`
	// ReplyTo is the id of the message that it answers, where that helps.
	ReplyTo string `json:"reply_to,omitzero"`
	// Asks: the next message of the person is the answer.
	Asks bool `json:"asks,omitzero"`
	// Live: it shows the progress of a cell that has printed Printed so far. Text has the end of that.
	Live    bool   `json:"-"`
	Printed string `json:"-"`
	// Files are one document, or photos that are shown together.
	Files  []File `json:"-"`
	Photos bool   `json:"-"`
}

// File is a file to send. Open is called once for each attempt, and its result is closed.
type File struct {
	Name      string
	MediaType string
	Size      int64
	Open      func(context.Context) (io.ReadCloser, error)
}
