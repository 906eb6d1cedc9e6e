package api

// Document is the notebook page's arrangement of a session: its cells, their order and a title. Executions that were
// queued up to Through, a seq of the log, are in it or were taken out of it; a page adds the later ones. Imported tells
// that cells without an execution may have outputs in the notebook file of the session.
type Document struct {
	Revision int64          `json:"revision"` // 0: never saved
	Title    string         `json:"title"`
	Through  int64          `json:"through"`
	Imported bool           `json:"imported"`
	Cells    []DocumentCell `json:"cells"`
}

// DocumentCell is one cell. An execution belongs to it when its id is the cell's, or the cell's with ".r" and eight
// characters of [0-9a-z] behind it.
type DocumentCell struct {
	ID       string `json:"id"`
	CellType string `json:"cell_type"` // code, markdown or raw
	Source   string `json:"source"`
}

// DocumentRequest is the body of PUT. A nil Through means the log's present end. Revision stands in for a missing
// If-Match; Imported is taken and passed over, so that a document can be sent back as it came.
type DocumentRequest struct {
	Revision *int64         `json:"revision,omitzero"`
	Title    string         `json:"title,omitzero"`
	Through  *int64         `json:"through,omitzero"`
	Imported bool           `json:"imported,omitzero"`
	Cells    []DocumentCell `json:"cells"`
}

// CellOf is the id of the document cell that an execution belongs to, from the execution's id.
func CellOf(executionID string) string {
	const tail = 10 // ".r" and eight characters
	at := len(executionID) - tail
	if at < 1 || executionID[at:at+2] != ".r" {
		return executionID
	}
	for _, c := range []byte(executionID[at+2:]) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return executionID
		}
	}
	return executionID[:at]
}

// Share is a link that lets anybody who has it read one session. URL is told only to who makes it.
type Share struct {
	ID        string `json:"id"`
	URL       string `json:"url,omitzero"`
	CreatedAt Time   `json:"created_at"`
}

// View is what a page needs to show a session at a position of its log: the document, and the last execution of each cell, in the
// order in which they are shown. What happened after Seq follows in the events after it.
type View struct {
	LogID      string      `json:"log_id"`
	Seq        int64       `json:"seq"`
	Document   Document    `json:"document"`
	Executions []Execution `json:"executions"`
}
