// Package gateway is the bot that lets people use sessions from a chat: each chat, or topic or thread of one, has a session.
//
// Every update of the platform is kept before it is confirmed, every cell has an id that follows from its update, and all that
// the bot says is planned in the store before it is sent. So after a restart, nothing is run twice and nothing is lost. Where
// the process is killed while a request to the platform is under way, it looks for the message before it sends it again, if the
// platform has a way to do that ([Finder]).
package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
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
	keepFor    = 14 * 24 * time.Hour // what ended; platforms repeat updates for a day
	pruneEvery = time.Hour
	maxRetry   = time.Minute // between attempts to reach the server or the platform
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

	mu             sync.Mutex // guards what follows
	chats          map[string]*chat
	strangers      int // who were told that they may not use the bot, since strangersSince
	strangersSince time.Time
}

// New makes a bot. Run starts it.
func New(c Config) *Bot {
	return &Bot{Config: c, tempo: tempoOf(c.Platform.Target()), chats: make(map[string]*chat)}
}

// Run serves the chats until ctx ends, and says then in chats with a running cell that the bot is away. It returns an error
// if the platform does not know the bot, or the store fails.
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
	b.work.Go(func() { b.prune(running) })
	if err := b.receive(running); err != nil && running.Err() == nil {
		fatal(err)
	}
	<-running.Done()
	b.work.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(running)
}

// signIn signs in, again and again while the platform cannot be reached.
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

// resume goes on with what was left to do.
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

// receive takes updates until ctx ends.
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

// take keeps an update for its chat. Updates that are for nobody here are forgotten.
func (b *Bot) take(ctx context.Context, u Update) error {
	wanted := !u.From.Bot && (u.Addressed || u.Press != nil)
	key := b.key(u.Chat)
	added, replied := false, false
	err := b.Store.Do(ctx, func(tx *chats.Tx) error {
		if wanted {
			var err error
			if wanted, replied, err = b.admit(tx, u); err != nil {
				return err
			}
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
		var err error
		if added, err = tx.AddUpdate(u.ID, key, encoded(u), u.Position); err != nil || u.Press != nil {
			return err
		}
		return tx.PutReceived(key, u.MessageID)
	})
	if err != nil || !added && !replied {
		return err
	}
	c := b.chat(u.Chat)
	c.inbox.wake()
	c.outbox.wake()
	return nil
}

// key names a chat in the store.
func (b *Bot) key(c Chat) string {
	return b.Platform.Name() + ":" + b.account.ID + ":" + c.ID + ":" + c.Thread
}

// record is what is kept of a chat.
type record struct {
	Chat
	Session string `json:"session"`
	Talk    talk   `json:"talk,omitzero"`
}

// sessionID is the session of a chat: the same after a loss of the store.
func (b *Bot) sessionID(key string) string {
	sum := sha256.Sum256([]byte(key))
	return b.Platform.Name() + "-" + hex.EncodeToString(sum[:8])
}

// know keeps the address of a chat, once.
func (b *Bot) know(tx *chats.Tx, key string, c Chat) error {
	if _, ok, err := tx.Chat(key); ok || err != nil {
		return err
	}
	return tx.PutChat(key, encoded(record{Chat: c, Session: b.sessionID(key)}), false)
}

// chat returns the chat, which is at work from then on.
func (b *Bot) chat(at Chat) *chat {
	key := b.key(at)
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.chats[key]
	if c == nil {
		c = b.newChat(key, at)
		b.chats[key] = c
		b.work.Go(func() { c.handleUpdates(b.running) })
		b.work.Go(func() { c.sendAll(b.running) })
		b.work.Go(func() { c.followCells(b.running) })
		if b.Assistant != nil {
			b.work.Go(func() { c.think(b.running) })
		}
	}
	return c
}

func (b *Bot) newChat(key string, at Chat) *chat {
	return &chat{
		bot: b, key: key, at: at, session: b.sessionID(key), log: b.Log.With("chat", key),
		inbox: newBell(), outbox: newBell(), cells: newBell(), began: newBell(), thoughts: newBell(), results: newBell(), running: make(map[string]*progress),
	}
}

// prune forgets what ended long ago.
func (b *Bot) prune(ctx context.Context) {
	ticker := time.NewTicker(pruneEvery)
	defer ticker.Stop()
	for {
		if err := b.Store.Do(ctx, func(tx *chats.Tx) error { return tx.Prune(time.Now().Add(-keepFor)) }); err != nil && ctx.Err() == nil {
			b.Log.ErrorContext(ctx, "old rows cannot be removed", "error", err)
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

// chat is one chat at work: what people write, what runs, and what is said, each in its own goroutine.
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

	thoughts bell
	results  bell // the result of a cell is planned

	attached gate // open while the events of the session are followed

	mu      sync.Mutex // guards what follows
	running map[string]*progress
}

// do makes a change in the store. It fails only with the disk, which ends the bot, or with ctx.
func (c *chat) do(ctx context.Context, run func(*chats.Tx) error) error {
	err := c.bot.Store.Do(ctx, run)
	if err != nil && ctx.Err() == nil {
		c.bot.fatal(err)
	}
	return err
}

// bell wakes one goroutine that waits for work.
type bell chan struct{}

func newBell() bell {
	b := make(bell, 1)
	b.wake() // there may be something from before
	return b
}

func (b bell) wake() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// gate lets through while it is open. The zero value is closed.
type gate struct {
	mu   sync.Mutex
	open bool
	wake chan struct{} // closed when it opens; nil while nobody waits
}

func (g *gate) set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = open
	if open && g.wake != nil {
		close(g.wake)
		g.wake = nil
	}
}

// wait waits until it is open. It returns false if that takes too long.
func (g *gate) wait(ctx context.Context, most time.Duration) bool {
	g.mu.Lock()
	if g.open {
		g.mu.Unlock()
		return true
	}
	if g.wake == nil {
		g.wake = make(chan struct{})
	}
	wake := g.wake
	g.mu.Unlock()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-wake:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// backoff is the time until the next attempt.
type backoff time.Duration

// wait waits for as long as the error says, or else longer than the last time.
func (b *backoff) wait(ctx context.Context, err error) {
	*b = min(max(2**b, backoff(500*time.Millisecond)), backoff(maxRetry))
	pause := time.Duration(*b)
	if retry := (*RetryError)(nil); errors.As(err, &retry) {
		pause = retry.After
	}
	sleep(ctx, pause)
}

func sleep(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func encoded(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("%T cannot be encoded: %v", v, err))
	}
	return b
}

// decoded reads what encoded wrote.
func decoded[T any](b []byte) (v T) {
	if err := json.Unmarshal(b, &v); err != nil {
		panic(fmt.Sprintf("a row of the gateway's database is not a %T: %v", v, err))
	}
	return v
}
