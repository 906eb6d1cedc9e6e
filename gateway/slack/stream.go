package slack

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/slack-go/slack"

	"talaria/api"
	"talaria/gateway"
	"talaria/gateway/render"
)

// maxStream is how many characters a stream may have. Slack allows 12,000 of markdown.
const maxStream = 11_000

// Slack ends a stream by itself after some minutes, and refuses to edit a message that is still one.
const (
	streamOver    = "message_not_in_streaming_state"
	streamRunning = "streaming_state_conflict"
)

// startStream sends a message that grows with the output of a cell. started is false if that is not possible here. Slack
// streams to one person only, so streams are for threads of direct messages. Once it refuses a stream, no further one is tried.
func (p *Platform) startStream(ctx context.Context, to gateway.Chat, m gateway.Message) (id string, started bool, err error) {
	text, fits := growing(m)
	p.mu.Lock()
	refused := p.noStreams
	p.mu.Unlock()
	if refused || !m.Live || to.Group || to.Thread == "" || !fits {
		return "", false, nil
	}
	chunks := []slack.StreamChunk{slack.NewMarkdownTextChunk(text)}
	if len(m.Buttons) > 0 {
		chunks = append([]slack.StreamChunk{slack.NewBlocksChunk(buttons(m))}, chunks...)
	}
	_, id, err = p.api.StartStreamContext(ctx, to.ID, slack.MsgOptionTS(to.Thread), slack.MsgOptionChunks(chunks...))
	switch failed := p.failure(err); {
	case failed == nil:
		p.setStream(id, text)
		return id, true, nil
	case errors.Is(failed, gateway.ErrRefused):
		p.Log.InfoContext(ctx, "Slack does not stream here, so the bot edits messages instead", "error", failed)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.noStreams = true
		return "", false, nil
	default:
		return "", false, failed
	}
}

// appendStream adds what a cell has printed since to a stream. appended is false if the message has to be edited instead: it is not
// a stream, or the text did not only grow.
func (p *Platform) appendStream(ctx context.Context, channel, id string, m gateway.Message) (appended bool, err error) {
	before, streams := p.stream(id)
	text, fits := growing(m)
	if !streams || !m.Live || !fits || !strings.HasPrefix(text, before) {
		return false, nil
	}
	if text == before {
		return true, nil
	}
	_, _, err = p.api.AppendStreamContext(ctx, channel, id, slack.MsgOptionChunks(slack.NewMarkdownTextChunk(text[len(before):])))
	switch failed := p.failure(err); {
	case failed == nil:
		p.setStream(id, text)
		return true, nil
	case errors.Is(failed, gateway.ErrRefused):
		return false, nil
	default:
		return false, failed
	}
}

// stopStream ends a stream, so that the message can be edited.
func (p *Platform) stopStream(ctx context.Context, channel, id string) error {
	_, _, err := p.api.StopStreamContext(ctx, channel, id)
	if failed := p.failure(err); failed != nil && !errors.Is(failed, gateway.ErrRefused) {
		return failed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.streams, id)
	return nil
}

func (p *Platform) stream(id string) (text string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text, ok = p.streams[id]
	return text, ok
}

func (p *Platform) setStream(id, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.streams[id] = text
}

// growing returns the output of a cell as the beginning of a code block in markdown, and whether a stream can hold it. A longer
// output has a longer text with the same beginning.
func growing(m gateway.Message) (text string, fits bool) {
	text = strings.TrimSuffix(render.Code(api.RenderDiscord, m.Printed), "\n```") // Discord's texts are markdown too
	text = strings.NewReplacer("<!", "<\u200b!", "<@", "<\u200b@", "<#", "<\u200b#").Replace(text)
	return text, utf8.RuneCountInString(text) <= maxStream
}
