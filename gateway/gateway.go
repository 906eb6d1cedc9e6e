// Package gateway is the bot that lets people use sessions from a chat: each chat, or topic or thread of one, has a session.
//
// Every update of the platform is stored before it is confirmed, every cell has an id that follows from its update, and all that
// the bot says is in the store before it is sent. So after a restart, nothing runs twice and nothing is lost. If the process was
// killed during a request to the platform, the bot looks for the message before it sends it again, if the platform has a way to do
// that ([Finder]).
package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"talaria/api"
	"talaria/client"
	"talaria/gateway/assistant"
	"talaria/store/chats"
)

const (
	keepFor     = 14 * 24 * time.Hour // what ended; platforms repeat updates for a day
	pruneEvery  = time.Hour
	retireEvery = 5 * time.Minute
	idleTime    = 10 * time.Minute // without anything to do; then the goroutines of a chat end
	maxRetry    = time.Minute      // between attempts to reach the server or the platform
	maxToasts   = 20               // presses of strangers that wait for an answer; more get none
)

// Config is what a bot is made of.
type Config struct {
	Platform Platform
	Client   *client.Client // with a token of the owner of the chats' sessions
	Store    *chats.Store
	Log      *slog.Logger
	// Session is what the sessions of chats are created with.
	Session api.SessionRequest
	// Allow are the ids of people and of chats that may use the bot. People who were paired may use it too.
	Allow []string
	// Admins are the ids of people who may also decide what others were asked.
	Admins []string
	// Interrupt: a cell that is sent while another runs interrupts it. Otherwise it waits.
	Interrupt bool
	// Assistant answers messages in plain words. Nil: all text is code.
	Assistant *assistant.Assistant
	// PublicURL is the server's address for people in chats, who get links to files that are too large to send. "" for no links.
	PublicURL string
}

// Bot is one bot account. Make it with [New].
type Bot struct {
	Config

	account Account
	tempo   tempo
	paces   *paces
	work    sync.WaitGroup

	running context.Context // set by Run; fatal ends it
	fatal   context.CancelCauseFunc

	toasts chan Press // of strangers

	mu             sync.Mutex // guards what follows
	chats          map[string]*chat
	ended          bool // no chat is started any more
	strangers      int  // replies to people who may not use the bot, since strangersSince
	strangersSince time.Time
}

// New makes a bot. Run starts it.
func New(c Config) *Bot {
	return &Bot{Config: c, tempo: tempoOf(c.Platform.Target()), toasts: make(chan Press, maxToasts), chats: make(map[string]*chat)}
}

// Run serves the chats until ctx ends. It then says in chats with a running cell that the bot is away. It returns an error if the
// platform rejects the bot's token, or the store fails.
func (b *Bot) Run(ctx context.Context) error {
	account, err := b.signIn(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	b.account = account
	if b.paces, err = loadPaces(ctx, b.Store, b.tempo); err != nil {
		return err
	}
	running, fatal := context.WithCancelCause(ctx)
	defer fatal(nil)
	b.running, b.fatal = running, fatal
	if err := b.resume(running); err != nil {
		return err
	}
	b.work.Go(func() { b.every(running, pruneEvery, "old rows cannot be removed", b.prune) })
	b.work.Go(func() { b.every(running, retireEvery, "idle chats cannot be found", b.retire) })
	b.work.Go(func() { b.answerStrangers(running) })
	if err := b.receive(running); err != nil && running.Err() == nil {
		fatal(err)
	}
	<-running.Done()
	b.mu.Lock()
	b.ended = true // a request of a webhook may still be under way
	b.mu.Unlock()
	b.work.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(running)
}

// signIn signs in, and tries again while the platform cannot be reached.
func (b *Bot) signIn(ctx context.Context) (Account, error) {
	var retry backoff
	for {
		account, err := b.Platform.Open(ctx, b.commands())
		switch {
		case err == nil:
			b.Log.InfoContext(ctx, "signed in", "platform", b.Platform.Name(), "bot", account.Name)
			return account, nil
		case ctx.Err() != nil:
			return account, nil
		case errors.Is(err, ErrSignedOut):
			return account, err
		}
		b.Log.WarnContext(ctx, "the platform cannot be reached", "platform", b.Platform.Name(), "error", err)
		retry.wait(ctx, err)
	}
}

// resume starts the chats in which something was left to do.
func (b *Bot) resume(ctx context.Context) error {
	var open []string
	var known map[string]record
	err := b.Store.Do(ctx, func(tx *chats.Tx) (err error) {
		if open, err = tx.OpenChats(); err != nil {
			return err
		}
		known = make(map[string]record)
		for _, key := range open {
			kept, ok, err := tx.Chat(key)
			if err != nil {
				return err
			}
			if ok {
				known[key] = decoded[record](kept.Body)
			}
		}
		return nil
	})
	for _, key := range open {
		if r, ok := known[key]; ok {
			b.chat(r.Chat)
		}
	}
	return err
}

// receive takes updates until ctx ends or the bot is signed out.
func (b *Bot) receive(ctx context.Context) error {
	var retry backoff
	for ctx.Err() == nil {
		var position string
		if err := b.Store.Do(ctx, func(tx *chats.Tx) (err error) { position, err = tx.Position(); return err }); err != nil {
			return err
		}
		began := time.Now()
		err := b.Platform.Receive(ctx, position, b.take)
		if time.Since(began) > maxRetry {
			retry = 0
		}
		if ctx.Err() != nil || errors.Is(err, ErrSignedOut) {
			return err
		}
		b.Log.WarnContext(ctx, "updates cannot be received; trying again", "platform", b.Platform.Name(), "error", err)
		retry.wait(ctx, err)
	}
	return nil
}

// take stores an update for its chat. Updates that are not for the bot are dropped.
func (b *Bot) take(ctx context.Context, u Update) error {
	key := b.key(u.Chat)
	added, replied, foreign := false, false, false
	err := b.Store.Do(ctx, func(tx *chats.Tx) error {
		wanted, err := b.concerns(tx, key, u)
		if err != nil {
			return err
		}
		if wanted {
			if wanted, replied, err = b.admit(tx, u); err != nil {
				return err
			}
			foreign = !wanted && u.Press != nil
		}
		if !wanted {
			if u.Position == "" {
				return nil
			}
			return tx.PutPosition(u.Position)
		}
		if err := b.know(tx, key, u.Chat); err != nil {
			return err
		}
		if added, err = tx.AddUpdate(u.ID, key, encoded(u), u.Position); err != nil || u.Press != nil || u.MessageID == "" {
			return err
		}
		return tx.PutReceived(key, u.MessageID)
	})
	if foreign && err == nil {
		select {
		case b.toasts <- *u.Press:
		default:
		}
	}
	if err != nil || !added && !replied {
		return err
	}
	c := b.chat(u.Chat)
	c.inbox.wake()
	c.outbox.wake()
	return nil
}

// concerns reports whether an update is for the bot: a press of a button, a message that is addressed to it, or one in a thread in
// which it was addressed before.
func (b *Bot) concerns(tx *chats.Tx, key string, u Update) (bool, error) {
	switch {
	case u.From.ID == "" || u.From.Bot:
		return false, nil
	case u.Addressed || u.Press != nil:
		return true, nil
	case u.Follows:
		_, known, err := tx.Chat(key)
		return known, err
	}
	return false, nil
}

// answerStrangers ends the waiting of people who pressed a button of a bot that they may not use, until ctx ends.
func (b *Bot) answerStrangers(ctx context.Context) {
	for {
		select {
		case press := <-b.toasts:
			if err := b.Platform.Acknowledge(ctx, press, "You may not use this bot."); err != nil && ctx.Err() == nil {
				b.Log.InfoContext(ctx, "the press of a button by a person who may not use the bot was not acknowledged", "error", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// key names a chat in the store.
func (b *Bot) key(c Chat) string {
	return b.Platform.Name() + ":" + b.account.ID + ":" + c.ID + ":" + c.Thread
}

// record is what the store has about a chat.
type record struct {
	Chat
	Session string `json:"session"`
	Talk    talk   `json:"talk,omitzero"`
}

// sessionID returns the session of a chat. It does not change if the store is lost.
func (b *Bot) sessionID(key string) string {
	sum := sha256.Sum256([]byte(key))
	return b.Platform.Name() + "-" + hex.EncodeToString(sum[:8])
}

// know stores the address of a chat, once.
func (b *Bot) know(tx *chats.Tx, key string, c Chat) error {
	if _, ok, err := tx.Chat(key); ok || err != nil {
		return err
	}
	return tx.PutChat(key, encoded(record{Chat: c, Session: b.sessionID(key)}), false)
}

// chat returns the chat, and starts its goroutines if they are not running. Once the bot has ended, what comes waits in the store.
func (b *Bot) chat(at Chat) *chat {
	key := b.key(at)
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.chats[key]
	if c == nil && b.ended {
		return b.newChat(key, at)
	}
	if c == nil {
		c = b.newChat(key, at)
		b.chats[key] = c
		running, end := context.WithCancel(b.running)
		c.end = end
		b.work.Go(func() { c.handleUpdates(running) })
		b.work.Go(func() { c.sendAll(running) })
		b.work.Go(func() { c.followCells(running) })
		if b.Assistant != nil {
			b.work.Go(func() { c.think(running) })
		}
	}
	c.used = time.Now()
	return c
}

// retire ends the goroutines of chats in which nothing happened for idleTime and nothing is left to do, so that their number does
// not grow with every thread that ever was. The next update starts them again.
func (b *Bot) retire(ctx context.Context) error {
	before := time.Now().Add(-idleTime)
	busy := make(map[string]bool)
	if err := b.Store.Do(ctx, func(tx *chats.Tx) error {
		open, err := tx.OpenChats()
		for _, key := range open {
			busy[key] = true
		}
		return err
	}); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, c := range b.chats {
		if !busy[key] && c.used.Before(before) { // an update that came meanwhile has set used
			c.end()
			delete(b.chats, key)
		}
	}
	return nil
}

func (b *Bot) newChat(key string, at Chat) *chat {
	return &chat{
		bot: b, key: key, at: at, session: b.sessionID(key), log: b.Log.With("chat", key),
		inbox: newBell(), outbox: newBell(), cells: newBell(), began: newBell(), thoughts: newBell(), results: newBell(), running: make(map[string]*progress),
	}
}

// prune deletes what ended long ago.
func (b *Bot) prune(ctx context.Context) error {
	return b.Store.Do(ctx, func(tx *chats.Tx) error {
		for _, chat := range b.paces.forget() {
			if err := tx.DeletePace(chat); err != nil {
				return err
			}
		}
		return tx.Prune(time.Now().Add(-keepFor))
	})
}

// every does something at once and then regularly, until ctx ends.
func (b *Bot) every(ctx context.Context, pause time.Duration, problem string, do func(context.Context) error) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		if err := do(ctx); err != nil && ctx.Err() == nil {
			b.Log.ErrorContext(ctx, problem, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// admin reports whether somebody may decide for others.
func (b *Bot) admin(tx *chats.Tx, id string) (bool, error) {
	if slices.Contains(b.Admins, id) {
		return true, nil
	}
	p, ok, err := tx.Person(id)
	return ok && p.Admin, err
}

// chat is an active chat. One goroutine handles what people write, one follows cells, one sends, and one runs the assistant.
type chat struct {
	bot     *Bot
	key     string
	at      Chat
	session string
	log     *slog.Logger
	inbox   bell
	outbox  bell
	cells   bell
	began   bell // a cell has started to run

	thoughts bell // the assistant has something to do
	results  bell // the result of a cell is planned

	attached gate // open while the events of the session are followed

	end  context.CancelFunc // of the goroutines
	used time.Time          // when an update last came; guarded by Bot.mu

	mu      sync.Mutex // guards what follows
	running map[string]*progress
}

// do makes a change in the store. It fails if ctx ends, or if the database does, which ends the bot.
func (c *chat) do(ctx context.Context, run func(*chats.Tx) error) error {
	err := c.bot.Store.Do(ctx, run)
	if err != nil && ctx.Err() == nil {
		c.bot.fatal(err)
	}
	return err
}
