package store_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"talaria/api"
	"talaria/store"
)

// BenchmarkCell measures what a small cell costs the store: the CPU time, and how many pages go to SQLite's log. Sessions take turns.
// The number of pages is only right until the log is moved into the database for the first time, after 500 writes:
//
//	go test ./store -run '^$' -bench BenchmarkCell -benchtime 150x -count 5
func BenchmarkCell(b *testing.B) {
	for _, sessions := range []int{1, 8} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) {
			dir := b.TempDir()
			s, err := store.Open(b.Context(), dir, slog.New(slog.DiscardHandler))
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			if _, err := s.Begin(b.Context(), "boot-1"); err != nil {
				b.Fatal(err)
			}
			var cells []*cellWriter
			for n := range sessions {
				cells = append(cells, newCellWriter(b, s, int64(n+1)))
				for range 80 / sessions { // the first cells find empty pages
					cells[n].run(b)
				}
			}
			log := filepath.Join(dir, "talaria.db-wal")
			size, cpu := fileSize(b, log), cpuTime(b)
			for i := 0; b.Loop(); i++ {
				cells[i%sessions].run(b)
			}
			b.ReportMetric(float64((cpuTime(b)-cpu).Microseconds())/float64(b.N), "cpu-µs/op")
			b.ReportMetric(float64(fileSize(b, log)-size)/(4096+24)/float64(b.N), "pages/op")
		})
	}
}

// cellWriter writes cells as a session does: one is queued, and then everything from its start to its end is one change.
type cellWriter struct {
	s      *store.Store
	n, seq int64
}

func newCellWriter(b *testing.B, s *store.Store, n int64) *cellWriter {
	row := sample(n, "ann", fmt.Sprint("s", n))
	row.Layers = []string{strings.Repeat("x", 1500)} // about as long as a row is in a running server
	if err := s.Do(b.Context(), store.Write{Apply: func(tx *store.Tx) error { return tx.InsertSession(row) }}); err != nil {
		b.Fatal(err)
	}
	return &cellWriter{s: s, n: n}
}

func (c *cellWriter) run(b *testing.B) {
	id, now := uuid.NewString(), time.Now().UnixMilli()
	row := store.Execution{
		Session: c.n, ID: id, Code: "1 + 1", TimeoutMS: 300_000, Status: api.StatusQueued, State: api.VariablesKept, Generation: 1,
	}
	write := func(also func(tx *store.Tx) error, p store.Progress, events ...store.Event) {
		err := c.s.Do(b.Context(), store.Write{Apply: func(tx *store.Tx) error {
			for _, e := range events {
				c.seq++
				e.Seq, e.Time, e.ExecutionID, e.Size = c.seq, now, id, int64(len(e.Body))
				if err := tx.InsertEvent(c.n, e); err != nil {
					return err
				}
			}
			if err := also(tx); err != nil {
				return err
			}
			p.LastSeq = &c.seq
			return tx.Advance(c.n, p)
		}})
		if err != nil {
			b.Fatal(err)
		}
	}
	write(func(tx *store.Tx) (err error) { row.N, err = tx.InsertExecution(row); return err },
		store.Progress{LastActive: &now, LogBytes: 85},
		store.Event{Type: "execution_queued", Body: []byte(`{"code":"1 + 1"}`)})
	write(func(tx *store.Tx) error {
		row.StartedAt, row.StartedSeq = &now, c.seq-4
		if err := tx.StartExecution(row); err != nil {
			return err
		}
		row.Status, row.Text, row.FinishedAt, row.FinishedSeq = api.StatusOK, "2", &now, c.seq-1
		return tx.FinishExecution(row)
	},
		store.Progress{LogBytes: 900, State: &store.StateReason{State: api.StateIdle}, Cursor: &store.Cursor{KSeq: uint64(c.seq)}},
		store.Event{Type: "session_state", Body: []byte(`{"state":"busy"}`)},
		store.Event{Type: "execution_started", Body: []byte(`{"code":"1 + 1","execution_count":330}`)},
		store.Event{Type: "execute_result", Body: []byte(`{"data":{"text/plain":"2"},"metadata":{},"execution_count":330}`)},
		store.Event{Type: "execution_finished", Body: []byte(`{"execution":"` + strings.Repeat("x", 430) + `"}`)},
		store.Event{Type: "session_state", Body: []byte(`{"state":"idle"}`)})
}

func fileSize(b *testing.B, path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	return info.Size()
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
