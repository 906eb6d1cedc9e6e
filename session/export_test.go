package session

// UnloadUnused looks for unused sessions as often as it takes to unload those that are unused now.
func (m *Manager) UnloadUnused() {
	m.unloadOnce()
	m.unloadOnce()
}

// Loaded counts the sessions that are in memory.
func (m *Manager) Loaded() int { return len(m.all()) }
