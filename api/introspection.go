package api

// What clients ask about the names in a kernel. Places in code are counted in characters: Unicode code points.

// CompleteRequest asks what could stand at a place in code; without CursorPos at its end.
type CompleteRequest struct {
	Code      *string `json:"code"`
	CursorPos *int64  `json:"cursor_pos,omitzero"`
}

// CompleteReply has the matches, each of which replaces the code from CursorStart to CursorEnd.
type CompleteReply struct {
	Matches     []string `json:"matches"`
	CursorStart int64    `json:"cursor_start"`
	CursorEnd   int64    `json:"cursor_end"`
}

// InspectRequest asks what the name at a place in code stands for; without CursorPos at its end. DetailLevel is 0, or
// 1 for its source.
type InspectRequest struct {
	Code        *string `json:"code"`
	CursorPos   *int64  `json:"cursor_pos,omitzero"`
	DetailLevel *int64  `json:"detail_level,omitzero"`
}

// InspectReply describes it, if there is such a name.
type InspectReply struct {
	Found bool       `json:"found"`
	Data  MIMEBundle `json:"data"`
}

// PingReply says how long the kernel's interpreter took to answer, there and back, seen from the server.
type PingReply struct {
	LatencyMS float64 `json:"latency_ms"`
}

// IsCompleteRequest asks whether code could be run as it is.
type IsCompleteRequest struct {
	Code *string `json:"code"`
}

// CompletenessStatus is what IsCompleteReply says.
type CompletenessStatus string

// The words of CompletenessStatus.
const (
	SourceComplete   CompletenessStatus = "complete"
	SourceIncomplete CompletenessStatus = "incomplete"
	SourceInvalid    CompletenessStatus = "invalid"
	SourceUnknown    CompletenessStatus = "unknown"
)

// IsCompleteReply has the indentation of the next line where more is to come.
type IsCompleteReply struct {
	Status CompletenessStatus `json:"status"`
	Indent string             `json:"indent"`
}

// VariablesReply lists the variables by name. Total is how many there are, which may be more than are listed.
type VariablesReply struct {
	Items []Variable `json:"items"`
	Total int64      `json:"total"`
}

// Variable is one of them. SizeBytes is an estimate where a container holds other objects.
type Variable struct {
	Name      string  `json:"name"`
	Type      string  `json:"type"`
	Shape     []int64 `json:"shape,omitzero"`
	Dtype     string  `json:"dtype,omitzero"`
	SizeBytes *int64  `json:"size_bytes,omitzero"`
	Preview   string  `json:"preview"`
}

// TableRequest asks for rows of a table that was shown with this table_id, as it is now: Count of them from Offset on, in
// the order of the columns in Sort, the most important one first. Without Sort it is the table's own order. With Filter
// it is only rows that have this text in one of the shown columns, in whatever case.
type TableRequest struct {
	Table  *string     `json:"table"`
	Filter string      `json:"filter,omitzero"`
	Sort   []TableSort `json:"sort,omitzero"`
	Offset *int64      `json:"offset,omitzero"`
	Count  *int64      `json:"count,omitzero"`
}

// TableSort is a column by its place in the schema, the index first.
type TableSort struct {
	Column     int64 `json:"column"`
	Descending bool  `json:"descending"`
}

// TableReply has rows from Offset on, each a list of cells in the order of the schema's fields. They may be fewer than
// asked for: Total is how many there are, those that the filter lets through.
type TableReply struct {
	Offset int64   `json:"offset"`
	Total  int64   `json:"total"`
	Rows   [][]Raw `json:"rows"`
}
