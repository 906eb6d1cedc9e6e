package slack

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"talaria/gateway"
)

// The kinds of payloads, as Socket Mode names them.
const (
	eventsAPI     = "events_api"
	interactive   = "interactive"
	slashCommands = "slash_commands"
)

// message is an event of type message or app_mention.
type message struct {
	Type         string `json:"type"`
	Subtype      string `json:"subtype"`
	Channel      string `json:"channel"`
	ChannelType  string `json:"channel_type"`
	User         string `json:"user"`
	Text         string `json:"text"`
	TS           string `json:"ts"`
	ThreadTS     string `json:"thread_ts"`
	ParentUserID string `json:"parent_user_id"`
	BotID        string `json:"bot_id"`
	AppID        string `json:"app_id"`
	ClientMsgID  string `json:"client_msg_id"`
	BotProfile   any    `json:"bot_profile"`
	Files        []struct {
		Name     string `json:"name"`
		Size     int64  `json:"size"`
		Download string `json:"url_private_download"`
		Private  string `json:"url_private"`
	} `json:"files"`
}

// press is a payload of type block_actions.
type press struct {
	Type string `json:"type"`
	User struct {
		ID       string `json:"id"`
		Username string `json:"username"`
		Name     string `json:"name"`
	} `json:"user"`
	Channel struct {
		ID string `json:"id"`
	} `json:"channel"`
	Message struct {
		TS       string `json:"ts"`
		ThreadTS string `json:"thread_ts"`
	} `json:"message"`
	Actions []struct {
		Value    string `json:"value"`
		ActionTS string `json:"action_ts"`
	} `json:"actions"`
}

// slashCommand is what /talaria sends.
type slashCommand struct {
	Command   string `json:"command"`
	Text      string `json:"text"`
	UserID    string `json:"user_id"`
	UserName  string `json:"user_name"`
	ChannelID string `json:"channel_id"`
	TriggerID string `json:"trigger_id"`
}

// read decodes a payload. The update has no id if it is not for the bot.
func (p *Platform) read(kind string, payload json.RawMessage) (u gateway.Update, err error) {
	switch kind {
	case eventsAPI:
		var e struct {
			Event message `json:"event"`
		}
		if err = json.Unmarshal(payload, &e); err == nil {
			u = p.readMessage(e.Event)
		}
	case interactive:
		var pressed press
		if err = json.Unmarshal(payload, &pressed); err == nil {
			u = p.readPress(pressed)
		}
	case slashCommands:
		var c slashCommand
		if err = json.Unmarshal(payload, &c); err == nil {
			u = readCommand(c)
		}
	}
	if err != nil {
		return u, fmt.Errorf("read an event of Slack: %w", err)
	}
	return u, nil
}

func (p *Platform) readMessage(m message) (u gateway.Update) {
	p.mu.Lock()
	self := p.user
	p.mu.Unlock()
	switch {
	case m.Type != "message" && m.Type != "app_mention", m.User == "", m.User == self, m.TS == "":
		return u
	case m.Subtype != "" && m.Subtype != "file_share" && m.Subtype != "thread_broadcast":
		return u
	case m.BotID != "" || m.BotProfile != nil || m.AppID != "" && m.ClientMsgID == "":
		return u
	}
	direct := m.ChannelType == "im" || strings.HasPrefix(m.Channel, "D")
	if direct && !p.DirectThreads {
		m.ThreadTS = ""
	}
	u = gateway.Update{
		ID:   "slack:" + m.Channel + ":" + m.TS, // a mention comes as two events
		Chat: gateway.Chat{ID: m.Channel, Thread: m.ThreadTS, Group: !direct}, From: gateway.Person{ID: m.User, Name: m.User}, MessageID: m.TS,
	}
	opens := u.Chat.Thread == "" && (!direct || p.DirectThreads)
	if opens {
		u.Chat.Thread = m.TS
	}
	mention := "<@" + self + ">"
	u.Addressed = direct || m.Type == "app_mention" || strings.Contains(m.Text, mention) || m.ParentUserID == self
	if m.ParentUserID == self {
		u.ReplyTo = m.ThreadTS
	}
	u.Follows = !opens && !strings.HasPrefix(m.Text, "<@") // who mentions somebody else speaks to them
	u.Text = typed(strings.TrimLeft(strings.TrimPrefix(m.Text, mention), " \n"))
	for _, f := range m.Files {
		link := f.Download
		if link == "" {
			link = f.Private
		}
		u.Files = append(u.Files, gateway.Attachment{ID: link, Name: f.Name, Size: f.Size})
	}
	return u
}

func (p *Platform) readPress(pressed press) (u gateway.Update) {
	if pressed.Type != "block_actions" || len(pressed.Actions) == 0 || pressed.User.ID == "" || pressed.Channel.ID == "" {
		return u
	}
	a := pressed.Actions[0]
	name := pressed.User.Username
	if name == "" {
		name = pressed.User.Name
	}
	direct := strings.HasPrefix(pressed.Channel.ID, "D")
	if direct && !p.DirectThreads || pressed.Message.ThreadTS == pressed.Message.TS { // it is not in the thread that replies to it opened
		pressed.Message.ThreadTS = ""
	}
	return gateway.Update{
		ID:   "slack:press:" + pressed.Channel.ID + ":" + pressed.Message.TS + ":" + pressed.User.ID + ":" + a.ActionTS,
		Chat: gateway.Chat{ID: pressed.Channel.ID, Thread: pressed.Message.ThreadTS, Group: !direct},
		From: gateway.Person{ID: pressed.User.ID, Name: name}, MessageID: pressed.Message.TS,
		Press: &gateway.Press{ID: pressed.Channel.ID + "|" + pressed.User.ID + "|" + a.ActionTS, Data: a.Value},
	}
}

// named is a text that begins with the name of a command.
var named = regexp.MustCompile(`^[A-Za-z]+(\s|$)`)

func readCommand(c slashCommand) (u gateway.Update) {
	if c.UserID == "" || c.ChannelID == "" || c.TriggerID == "" {
		return u
	}
	text := strings.TrimSpace(c.Text)
	switch {
	case text == "":
		text = "help"
	case !named.MatchString(text):
		text = "py " + text
	}
	return gateway.Update{
		ID:   "slack:command:" + c.TriggerID,
		Chat: gateway.Chat{ID: c.ChannelID, Group: !strings.HasPrefix(c.ChannelID, "D")},
		From: gateway.Person{ID: c.UserID, Name: c.UserName},
		Text: "/" + text, Addressed: true,
	}
}

// link matches what Slack makes of an address that somebody types: <http://a.b|a.b>, <mailto:a@b|a@b>.
var link = regexp.MustCompile(`<((?:https?|mailto|ftp):[^|>]*)(?:\|([^>]*))?>`)

// typed returns a text as the person typed it, without the markup that Slack adds.
func typed(text string) string {
	text = link.ReplaceAllStringFunc(text, func(found string) string {
		parts := link.FindStringSubmatch(found)
		if parts[2] != "" {
			return parts[2]
		}
		return parts[1]
	})
	return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(text)
}
