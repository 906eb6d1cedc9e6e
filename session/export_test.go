package session

// UnloadUnused looks for unused sessions as often as it takes to unload those that are unused now.
func (m *Manager) UnloadUnused() {
	m.unloadOnce()
	m.unloadOnce()
}

// Loaded counts the sessions that are in memory.
func (m *Manager) Loaded() int { return len(m.all()) }

// HoldDeadline stops the time of a call until resume is called.
func (ts *Tools) HoldDeadline(callID string) (resume func()) { return ts.holdDeadline(callID) }

// Queued returns how many bytes of code wait or run in the owner's sessions.
func (m *Manager) Queued(owner string) (bytes int64) {
	m.owners.mu.Lock()
	defer m.owners.mu.Unlock()
	if use := m.owners.uses[owner]; use != nil {
		bytes = use.queued
	}
	return bytes
}

// HasGiven reports whether the host has confirmed that it has the running execution.
func (s *Session) HasGiven() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current != nil && s.current.given && !s.current.giving
}
