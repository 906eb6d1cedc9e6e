package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// What a sample and a row may take.
const (
	sampleTime = 2 * time.Minute
	rowTime    = 20 * time.Minute
)

// stage holds the server that is being measured: one at a time, so that nothing else of ours runs beside it.
type stage struct {
	driver  driver
	server  server
	flavour flavour
}

// use is the present server, if it is of that flavour, or else a fresh one.
func (s *stage) use(ctx context.Context, f flavour) (server, error) {
	if s.server != nil && s.flavour == f {
		return s.server, nil
	}
	return s.renew(ctx, f)
}

// renew ends the present server and starts a fresh one.
func (s *stage) renew(ctx context.Context, f flavour) (server, error) {
	if err := s.clear(); err != nil {
		return nil, err
	}
	server, err := s.driver.start(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	s.server, s.flavour = server, f
	return server, nil
}

// clear ends the present server, if there is one.
func (s *stage) clear() error {
	if s.server == nil {
		return nil
	}
	err := s.server.close()
	s.server = nil
	if err != nil {
		return fmt.Errorf("end a server: %w", err)
	}
	return nil
}

// trial is one row being measured with one driver.
type trial struct {
	*stage
	n, warmUp int
	metrics   int            // of the row
	sessions  int            // of the row about many of them
	quick     bool           // smaller data are enough
	values    [][]float64    // the samples, a list for each metric
	notes     map[int]string // what the table says beside metrics
}

// repeat takes the row's number of samples, after some that are not counted. A sample has a value for each metric.
func (t *trial) repeat(ctx context.Context, sample func(ctx context.Context) ([]float64, error)) error {
	for i := range t.warmUp + t.n {
		values, err := bounded(ctx, sample)
		if err != nil {
			return fmt.Errorf("sample %d: %w", i+1, err)
		}
		if i < t.warmUp {
			continue
		}
		for metric, v := range values {
			t.add(metric, v)
		}
	}
	return nil
}

// add adds samples of one metric.
func (t *trial) add(metric int, values ...float64) {
	t.values = append(t.values, make([][]float64, max(0, metric+1-len(t.values)))...)
	t.values[metric] = append(t.values[metric], values...)
}

// note says something beside a metric in the table.
func (t *trial) note(metric int, text string) {
	if t.notes == nil {
		t.notes = map[int]string{}
	}
	t.notes[metric] = text
}

// noteAll says something beside all metrics of the row.
func (t *trial) noteAll(text string) {
	for metric := range t.metrics {
		t.note(metric, text)
	}
}

// bounded calls with a time limit.
func bounded[T any](ctx context.Context, call func(ctx context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, sampleTime, fmt.Errorf("there was no result within %v", sampleTime))
	defer cancel()
	return call(ctx)
}

// measure measures a row; a failure leaves no server behind that the next row could suffer from.
func (t *trial) measure(ctx context.Context, r row) error {
	ctx, cancel := context.WithTimeoutCause(ctx, rowTime, fmt.Errorf("the row took more than %v", rowTime))
	defer cancel()
	if err := r.measure(ctx, t); err != nil {
		return errors.Join(err, t.clear())
	}
	return nil
}
