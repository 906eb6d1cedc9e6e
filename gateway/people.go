package gateway

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"talaria/api"
	"talaria/store/chats"
)

// PairingTime is how long a pairing code is valid.
const PairingTime = 10 * time.Minute

// Somebody who may not use the bot gets one reply in strangerEvery, and at most maxStrangers people get one.
const (
	strangerEvery = time.Hour
	maxStrangers  = 100
)

// codeAlphabet lacks letters and digits that look alike.
const codeAlphabet = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"

// NewCode makes a pairing code: whoever sends it to the bot first, within [PairingTime], may use the bot. The store keeps a hash.
func NewCode(tx *chats.Tx, admin bool) (code string, err error) {
	var b [10]byte
	rand.Read(b[:]) // never fails
	for i := range b {
		b[i] = codeAlphabet[b[i]%byte(len(codeAlphabet))]
	}
	code = string(b[:5]) + "-" + string(b[5:])
	return code, tx.PutCode(codeHash(code), admin, time.Now().Add(PairingTime))
}

func codeHash(code string) string {
	code = strings.NewReplacer("-", "", " ", "").Replace(strings.ToUpper(code))
	sum := sha256.Sum256([]byte(code))
	return hex.EncodeToString(sum[:])
}

// admit reports whether an update is from somebody who may use the bot. A stranger who writes in person is paired, or gets a
// reply that says what to do; replied reports that there is one to send.
func (b *Bot) admit(tx *chats.Tx, u Update) (allowed, replied bool, err error) {
	if slices.Contains(b.Allow, u.From.ID) || slices.Contains(b.Admins, u.From.ID) || slices.Contains(b.Allow, u.Chat.ID) {
		return true, false, nil
	}
	if _, known, err := tx.Person(u.From.ID); known || err != nil {
		return known, false, err
	}
	if u.Chat.Group || u.Press != nil {
		return false, false, nil
	}
	name, rest := command(u.Text, true)
	reply := b.words("You may not use this bot yet. If you have a pairing code, send: {/}pair CODE")
	key := fmt.Sprintf("stranger:%s:%s:%d", b.account.ID, u.From.ID, time.Now().UnixMilli()/strangerEvery.Milliseconds())
	if name == "pair" {
		admin, ok, err := tx.TakeCode(codeHash(rest))
		if err != nil {
			return false, false, err
		}
		reply = plain("This pairing code is wrong or has expired. Ask the bot's operator for a new one: talaria gateway pair %s", b.Platform.Name())
		switch {
		case !ok && !b.replyToStranger():
			return false, false, nil
		case ok:
			p := chats.Person{ID: u.From.ID, Name: u.From.Name, Admin: admin, PairedAt: time.Now()}
			if err := tx.PutPerson(p); err != nil {
				return false, false, err
			}
			reply, key = b.words("You may use this bot now. "+b.welcome()), "paired:"+u.ID
		}
	} else if !b.replyToStranger() {
		return false, false, nil
	}
	if err := b.know(tx, b.key(u.Chat), u.Chat); err != nil {
		return false, false, err
	}
	if err := tx.PutReceived(b.key(u.Chat), u.MessageID); err != nil {
		return false, false, err
	}
	replied, err = tx.Say(b.key(u.Chat), key+"/0", encoded(reply))
	return false, replied, err
}

// PairCommand returns what a person sends before a pairing code.
func (c Config) PairCommand() string { return c.slash() + "pair" }

// slash returns what begins a command. Slack does not pass on messages that begin with a slash.
func (c Config) slash() string {
	if c.Platform.Target() == api.RenderSlack {
		return ""
	}
	return "/"
}

// words returns a message in our own words, in which {/} stands for what begins a command.
func (c Config) words(format string, args ...any) saying {
	return plain(strings.ReplaceAll(format, "{/}", c.slash()), args...)
}

// replyToStranger reports whether a stranger gets a reply. It counts them, so that many strangers cannot make the bot busy.
func (b *Bot) replyToStranger() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if hour := time.Now().Truncate(strangerEvery); hour.After(b.strangersSince) {
		b.strangersSince, b.strangers = hour, 0
	}
	b.strangers++
	return b.strangers <= maxStrangers
}

// welcome says in one line what to do first, for words.
func (b *Bot) welcome() string {
	if b.Assistant != nil {
		return "Ask a question, describe a task, or send Python code in a ``` block. {/}help lists the commands."
	}
	return "Send Python code, such as 1+1, and it runs in this chat's own session. {/}help lists the commands."
}
