package slack

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/slack-go/slack"

	"talaria/gateway"
)

// eventType names the metadata by which the bot's messages are found again.
const eventType = "talaria_message"

// findLimit is how many messages after a known one are looked through.
const findLimit = 200

// metadata stores the key of a message with it.
func metadata(m gateway.Message) slack.MsgOption {
	return slack.MsgOptionMetadata(slack.SlackMetadata{EventType: eventType, EventPayload: map[string]any{"key": m.Key}})
}

// Find implements gateway.Finder. Texts are found by their metadata. Uploads have none, and are found by their comment and the names
// of their files. An app that may not read the channel finds nothing.
func (p *Platform) Find(ctx context.Context, in gateway.Chat, after string, m gateway.Message, turn func(context.Context) error) (string, error) {
	if err := turn(ctx); err != nil {
		return "", err
	}
	var found []slack.Message
	var err error
	if in.Thread != "" {
		found, _, _, err = p.api.GetConversationRepliesContext(ctx, &slack.GetConversationRepliesParameters{
			ChannelID: in.ID, Timestamp: in.Thread, Oldest: after, Limit: findLimit, IncludeAllMetadata: true,
		})
	} else {
		var page *slack.GetConversationHistoryResponse
		if page, err = p.api.GetConversationHistoryContext(ctx, &slack.GetConversationHistoryParameters{
			ChannelID: in.ID, Oldest: after, Limit: findLimit, IncludeAllMetadata: true,
		}); err == nil {
			found = page.Messages
		}
	}
	if failed := p.failure(err); errors.Is(failed, gateway.ErrRefused) {
		p.Log.WarnContext(ctx, "earlier messages cannot be read, so one may be sent twice; the app needs the scopes of its manifest", "error", failed)
		return "", nil
	} else if failed != nil {
		return "", failed
	}
	p.mu.Lock()
	self := p.user
	p.mu.Unlock()
	for _, one := range found {
		if one.User == self && one.Timestamp != after && same(one, m) {
			return one.Timestamp, nil
		}
	}
	return "", nil
}

// same reports whether a message of Slack is one of the gateway's.
func same(one slack.Message, m gateway.Message) bool {
	if len(m.Files) == 0 {
		return one.Metadata.EventType == eventType && one.Metadata.EventPayload["key"] == m.Key
	}
	var names, wanted []string
	for _, f := range one.Files {
		names = append(names, f.Name)
	}
	for _, f := range m.Files {
		wanted = append(wanted, f.Name)
	}
	return slices.Equal(names, wanted) && strings.TrimSpace(typed(one.Text)) == strings.TrimSpace(m.Text)
}
