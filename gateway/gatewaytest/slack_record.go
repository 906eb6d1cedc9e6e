package gatewaytest

import (
	"context"
	"fmt"
	"slices"
)

// Calls returns a copy of all calls of the Web API.
func (f *Slack) Calls() []SlackCall {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

// Whispers returns what single people were shown.
func (f *Slack) Whispers() []Whisper {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.whispers)
}

// Messages returns a copy of the record of one channel, or of one thread of it, oldest first, without deleted messages.
func (f *Slack) Messages(channel, thread string) (all []SlackMessage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.messages {
		if !m.Deleted && m.Channel == channel && (thread == "" || m.Thread == thread || m.TS == thread) {
			all = append(all, *m)
		}
	}
	return all
}

// WaitCalls waits until the app has made n calls of a method.
func (f *Slack) WaitCalls(ctx context.Context, method string, n int) error {
	for {
		f.mu.Lock()
		changed, found := f.changed, 0
		for _, call := range f.calls {
			if call.Method == method {
				found++
			}
		}
		f.mu.Unlock()
		if found >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for %d calls of %s: %w", n, method, context.Cause(ctx))
		}
	}
}

// Wait returns the first message of the bot that matches, waiting until there is one or ctx ends.
func (f *Slack) Wait(ctx context.Context, match func(SlackMessage) bool) (SlackMessage, error) {
	for {
		f.mu.Lock()
		changed := f.changed
		for _, m := range f.messages {
			if m.User == "" && !m.Deleted && match(*m) {
				found := *m
				f.mu.Unlock()
				return found, nil
			}
		}
		f.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return SlackMessage{}, fmt.Errorf("wait for a message: %w", context.Cause(ctx))
		}
	}
}
