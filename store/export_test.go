package store

// Exec runs a statement in the transaction.
func (t *Tx) Exec(query string) error { return t.exec(query) }
