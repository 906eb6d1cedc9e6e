// Package chats keeps what a gateway must know after a restart in a small SQLite database of its own: updates that it has
// received, cells that it has started, and what it has said or is about to say.
package chats

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/gofrs/flock"
	_ "github.com/mattn/go-sqlite3"
	"github.com/pressly/goose/v3"

	"talaria/migrations"
)

// ErrLocked means that another gateway is using the database.
var ErrLocked = errors.New("another gateway is using this database")

// Store is an open database. It is safe for concurrent use.
type Store struct {
	db   *sql.DB
	lock *flock.Flock // nil for a guest
}

// Open opens the database at a path, alone, and creates and migrates it as needed. ctx bounds the opening only.
func Open(ctx context.Context, path string) (*Store, error) {
	lock := flock.New(path+".lock", flock.SetPermissions(0o600))
	switch locked, err := lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("lock %s: %w", path, err)
	case !locked:
		return nil, fmt.Errorf("%s: %w", path, ErrLocked)
	}
	s, err := OpenGuest(ctx, path)
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	s.lock = lock
	return s, nil
}

// OpenGuest opens the database beside a gateway that may be running, for a short command.
func OpenGuest(ctx context.Context, path string) (*Store, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) // SQLite would give it a common mode
	if err != nil {
		return nil, fmt.Errorf("open the gateway's database: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	// FULL: what was said must be known after a power failure too.
	options := url.Values{
		"_journal_mode": {"WAL"}, "_synchronous": {"FULL"}, "_busy_timeout": {"10000"}, "_txlock": {"immediate"},
	}
	db, err := sql.Open("sqlite3", (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: options.Encode()}).String())
	if err != nil {
		return nil, fmt.Errorf("open the gateway's database: %w", err)
	}
	db.SetMaxOpenConns(1)
	if err := migrate(ctx, db); err != nil {
		return nil, errors.Join(fmt.Errorf("open the gateway's database %s: %w", path, err), db.Close())
	}
	return &Store{db: db}, nil
}

func migrate(ctx context.Context, db *sql.DB) error {
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations.Chats())
	if err != nil {
		return err
	}
	current, target, err := provider.GetVersions(ctx)
	if err != nil {
		return err
	}
	if current > target {
		return fmt.Errorf("it has schema version %d, but this program supports up to %d: run a newer version of talaria", current, target)
	}
	_, err = provider.Up(ctx)
	return err
}

// Close closes the database.
func (s *Store) Close() error {
	err := s.db.Close()
	if s.lock != nil {
		err = errors.Join(err, s.lock.Unlock())
	}
	return err
}

// Do runs a transaction: it commits if run succeeds, and otherwise changes nothing.
func (s *Store) Do(ctx context.Context, run func(*Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("the gateway's database: %w", err)
	}
	if err := run(&Tx{ctx, tx}); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("the gateway's database: %w", err)
	}
	return nil
}

// Tx is a change under way. Bodies are JSON that this package does not look into.
type Tx struct {
	ctx context.Context
	tx  *sql.Tx
}

func (t *Tx) exec(query string, args ...any) (changed int64, err error) {
	r, err := t.tx.ExecContext(t.ctx, query, args...)
	if err != nil {
		return 0, fmt.Errorf("the gateway's database: %w", err)
	}
	return r.RowsAffected()
}

func (t *Tx) row(query string, args []any, into ...any) (found bool, err error) {
	err = t.tx.QueryRowContext(t.ctx, query, args...).Scan(into...)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("the gateway's database: %w", err)
	}
	return true, nil
}

// list reads rows whose columns scan, called for each, takes.
func (t *Tx) list(query string, args []any, scan func(*sql.Rows) error) (err error) {
	rows, err := t.tx.QueryContext(t.ctx, query, args...)
	if err != nil {
		return fmt.Errorf("the gateway's database: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return fmt.Errorf("the gateway's database: %w", err)
		}
	}
	return rows.Err()
}

func now() int64 { return time.Now().UnixMilli() }

// Update is an update that waits to be handled.
type Update struct {
	N    int64
	Body []byte
}

// AddUpdate stores an update, unless it was stored before, and the position after it.
func (t *Tx) AddUpdate(id, chat string, body []byte, position string) (added bool, err error) {
	n, err := t.exec(`INSERT INTO updates (id, chat, body, received_at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`, id, chat, body, now())
	if err == nil && position != "" {
		err = t.PutPosition(position)
	}
	return n > 0, err
}

// PutPosition stores where to continue receiving.
func (t *Tx) PutPosition(position string) error {
	_, err := t.exec(`INSERT INTO position (one, value) VALUES (1, ?) ON CONFLICT DO UPDATE SET value = excluded.value`, position)
	return err
}

// Position returns where to continue receiving, "" at first.
func (t *Tx) Position() (position string, err error) {
	_, err = t.row(`SELECT value FROM position`, nil, &position)
	return position, err
}

// NextUpdate is the oldest update of a chat that was not handled.
func (t *Tx) NextUpdate(chat string) (u Update, ok bool, err error) {
	ok, err = t.row(`SELECT n, body FROM updates WHERE chat = ? AND handled = 0 ORDER BY n LIMIT 1`, []any{chat}, &u.N, &u.Body)
	return u, ok, err
}

// WaitingUpdates counts the updates of a chat that were not handled.
func (t *Tx) WaitingUpdates(chat string) (n int, err error) {
	_, err = t.row(`SELECT count(*) FROM updates WHERE chat = ? AND handled = 0`, []any{chat}, &n)
	return n, err
}

// PutUpdate replaces the body of an update.
func (t *Tx) PutUpdate(n int64, body []byte) error {
	_, err := t.exec(`UPDATE updates SET body = ? WHERE n = ?`, body, n)
	return err
}

// Handled marks an update as handled.
func (t *Tx) Handled(n int64) error {
	_, err := t.exec(`UPDATE updates SET handled = 1, body = x'' WHERE n = ?`, n)
	return err
}

// OpenChats are the keys of the chats in which something is left to do.
func (t *Tx) OpenChats() (keys []string, err error) {
	err = t.list(`SELECT chat FROM updates WHERE handled = 0 UNION SELECT chat FROM cells WHERE done = 0
		UNION SELECT chat FROM outbox WHERE state < 2 UNION SELECT key FROM chats WHERE open = 1`, nil, func(r *sql.Rows) error {
		var key string
		err := r.Scan(&key)
		keys = append(keys, key)
		return err
	})
	return keys, err
}

// Chat is a row about a chat. LogID and Seq name the last event of its session that was handled.
type Chat struct {
	Body  []byte
	LogID string
	Seq   int64
}

// Chat returns the row with a key.
func (t *Tx) Chat(key string) (c Chat, ok bool, err error) {
	ok, err = t.row(`SELECT body, log_id, seq FROM chats WHERE key = ?`, []any{key}, &c.Body, &c.LogID, &c.Seq)
	return c, ok, err
}

// PutChat stores the body of a chat. open says that the chat has something to do besides its updates, cells and messages.
func (t *Tx) PutChat(key string, body []byte, open bool) error {
	_, err := t.exec(`INSERT INTO chats (key, body, open) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET body = excluded.body, open = excluded.open`,
		key, body, open)
	return err
}

// PutCursor stores which event of a chat's session was handled last.
func (t *Tx) PutCursor(key, logID string, seq int64) error {
	_, err := t.exec(`UPDATE chats SET log_id = ?, seq = ? WHERE key = ?`, logID, seq, key)
	return err
}

// Last is the id of the newest message of a chat that is known, "" for none.
func (t *Tx) Last(key string) (id string, err error) {
	_, err = t.row(`SELECT last FROM chats WHERE key = ?`, []any{key}, &id)
	return id, err
}

// PutLast stores the id of the newest message of a chat.
func (t *Tx) PutLast(key, id string) error {
	_, err := t.exec(`UPDATE chats SET last = ? WHERE key = ?`, id, key)
	return err
}

// PutReceived does so for a message that somebody wrote. While one of the bot's is on its way, which may have arrived first, Last
// stays as it is.
func (t *Tx) PutReceived(key, id string) error {
	_, err := t.exec(`UPDATE chats SET last = ? WHERE key = ? AND NOT EXISTS (SELECT 1 FROM outbox WHERE outbox.chat = chats.key AND state = ?)`,
		id, key, Sending)
	return err
}

// Cell is a cell of a chat.
type Cell struct {
	Execution string
	Body      []byte
	Done      bool
}

// Cell returns a cell.
func (t *Tx) Cell(execution string) (c Cell, ok bool, err error) {
	c.Execution = execution
	ok, err = t.row(`SELECT body, done FROM cells WHERE execution = ?`, []any{execution}, &c.Body, &c.Done)
	return c, ok, err
}

// PutCell stores a cell.
func (t *Tx) PutCell(chat string, c Cell) error {
	_, err := t.exec(`INSERT INTO cells (execution, chat, body, done) VALUES (?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET body = excluded.body, done = excluded.done`, c.Execution, chat, c.Body, c.Done)
	return err
}

// DeleteCell forgets a cell that does not run.
func (t *Tx) DeleteCell(execution string) error {
	_, err := t.exec(`DELETE FROM cells WHERE execution = ?`, execution)
	return err
}

// OpenCells are the cells of a chat that are not done, oldest first.
func (t *Tx) OpenCells(chat string) (cells []Cell, err error) {
	err = t.list(`SELECT execution, body FROM cells WHERE chat = ? AND done = 0 ORDER BY rowid`, []any{chat}, func(r *sql.Rows) error {
		var c Cell
		err := r.Scan(&c.Execution, &c.Body)
		cells = append(cells, c)
		return err
	})
	return cells, err
}

// State is how far a row of the outbox is.
type State int

// The states of a row.
const (
	Planned State = iota
	Sending       // it may have arrived
	Sent
	GivenUp
)

// Row is a message of the bot.
type Row struct {
	N       int64
	Key     string
	Body    []byte
	State   State
	Message string // its id on the platform, once it is sent
}

// Say adds a message after all others of the chat. A key is added once.
func (t *Tx) Say(chat, key string, body []byte) (added bool, err error) {
	n, err := t.exec(`INSERT INTO outbox (key, chat, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, key, chat, body)
	return n > 0, err
}

const row = `SELECT n, key, body, state, message FROM outbox `

// NextRow returns the message to send next in a chat.
func (t *Tx) NextRow(chat string) (r Row, ok bool, err error) {
	ok, err = t.row(row+`WHERE chat = ? AND state < 2 ORDER BY n LIMIT 1`, []any{chat}, &r.N, &r.Key, &r.Body, &r.State, &r.Message)
	return r, ok, err
}

// RowByKey returns a row.
func (t *Tx) RowByKey(key string) (r Row, ok bool, err error) {
	ok, err = t.row(row+`WHERE key = ?`, []any{key}, &r.N, &r.Key, &r.Body, &r.State, &r.Message)
	return r, ok, err
}

// SetRow stores the state of a row and the id of its message.
func (t *Tx) SetRow(n int64, state State, message string) error {
	_, err := t.exec(`UPDATE outbox SET state = ?, message = ?, sent_at = ? WHERE n = ?`, state, message, now(), n)
	return err
}

// SetRowBody replaces what a row says.
func (t *Tx) SetRowBody(n int64, body []byte) error {
	_, err := t.exec(`UPDATE outbox SET body = ? WHERE n = ?`, body, n)
	return err
}

// DeleteRow forgets a row that was not sent.
func (t *Tx) DeleteRow(n int64) error {
	_, err := t.exec(`DELETE FROM outbox WHERE n = ?`, n)
	return err
}

// GiveUp gives up all messages of a chat that were not sent.
func (t *Tx) GiveUp(chat string) error {
	_, err := t.exec(`UPDATE outbox SET state = ?, sent_at = ? WHERE chat = ? AND state < 2`, GivenUp, now(), chat)
	return err
}

// Paces returns the stored pace of each chat.
func (t *Tx) Paces() (map[string][]byte, error) {
	paces := make(map[string][]byte)
	err := t.list(`SELECT chat, body FROM pace`, nil, func(r *sql.Rows) error {
		var chat string
		var body []byte
		err := r.Scan(&chat, &body)
		paces[chat] = body
		return err
	})
	return paces, err
}

// PutPace stores the pace of a chat.
func (t *Tx) PutPace(chat string, body []byte) error {
	_, err := t.exec(`INSERT INTO pace (chat, body) VALUES (?, ?) ON CONFLICT DO UPDATE SET body = excluded.body`, chat, body)
	return err
}

// DeletePace deletes the pace of a chat.
func (t *Tx) DeletePace(chat string) error {
	_, err := t.exec(`DELETE FROM pace WHERE chat = ?`, chat)
	return err
}

// Person is somebody who was paired.
type Person struct {
	ID, Name string
	Admin    bool
	PairedAt time.Time
}

// Person returns somebody who was paired.
func (t *Tx) Person(id string) (p Person, ok bool, err error) {
	var at int64
	ok, err = t.row(`SELECT id, name, admin, paired_at FROM people WHERE id = ?`, []any{id}, &p.ID, &p.Name, &p.Admin, &at)
	p.PairedAt = time.UnixMilli(at)
	return p, ok, err
}

// People are all who were paired, the first one first.
func (t *Tx) People() (people []Person, err error) {
	err = t.list(`SELECT id, name, admin, paired_at FROM people ORDER BY paired_at, id`, nil, func(r *sql.Rows) error {
		var p Person
		var at int64
		err := r.Scan(&p.ID, &p.Name, &p.Admin, &at)
		p.PairedAt = time.UnixMilli(at)
		people = append(people, p)
		return err
	})
	return people, err
}

// PutPerson stores that somebody was paired.
func (t *Tx) PutPerson(p Person) error {
	_, err := t.exec(`INSERT INTO people (id, name, admin, paired_at) VALUES (?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET name = excluded.name, admin = max(admin, excluded.admin)`, p.ID, p.Name, p.Admin, p.PairedAt.UnixMilli())
	return err
}

// RemovePerson removes somebody.
func (t *Tx) RemovePerson(id string) (found bool, err error) {
	n, err := t.exec(`DELETE FROM people WHERE id = ?`, id)
	return n > 0, err
}

// PutCode stores the hash of a pairing code.
func (t *Tx) PutCode(hash string, admin bool, expires time.Time) error {
	_, err := t.exec(`INSERT INTO codes (hash, admin, expires_at) VALUES (?, ?, ?)`, hash, admin, expires.UnixMilli())
	return err
}

// TakeCode uses up a pairing code. ok is false if it does not exist or has expired.
func (t *Tx) TakeCode(hash string) (admin, ok bool, err error) {
	if ok, err = t.row(`SELECT admin FROM codes WHERE hash = ? AND expires_at > ?`, []any{hash, now()}, &admin); !ok || err != nil {
		return false, false, err
	}
	_, err = t.exec(`DELETE FROM codes WHERE hash = ?`, hash)
	return admin, true, err
}

// Prune deletes what ended before a time.
func (t *Tx) Prune(before time.Time) error {
	at := before.UnixMilli()
	for _, query := range []string{
		`DELETE FROM updates WHERE handled = 1 AND received_at < ?`,
		`DELETE FROM outbox WHERE state >= 2 AND sent_at < ?`,
		`DELETE FROM codes WHERE expires_at < ?`,
	} {
		if _, err := t.exec(query, at); err != nil {
			return err
		}
	}
	_, err := t.exec(`DELETE FROM cells WHERE done = 1 AND rowid < (SELECT max(rowid) - 10000 FROM cells)`)
	return err
}
