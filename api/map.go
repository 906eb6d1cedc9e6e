package api

// The bounds of a map.
const (
	MaxMapInputs      = 10_000
	MaxMapConcurrency = 64
)

// The media types of the display in which a kernel tells how an item of a map ended. The first has what is always kept.
const (
	MediaMapItem   = "application/vnd.talaria.map-item+json"
	MediaMapResult = "application/vnd.talaria.map-result+json"
)

// MapMetadata is the name in the metadata of a display that an item of a map showed: it says which map and which item.
const MapMetadata = "talaria_map"

// MapRequest is the body of POST map. A nil field was not given; either Code or Function is.
type MapRequest struct {
	ID       *string `json:"id,omitzero"`       // of the execution that runs the map
	Code     *string `json:"code,omitzero"`     // sees item and index; its last expression is the value
	Function *string `json:"function,omitzero"` // a name in the session, called with the item
	Inputs   []Raw   `json:"inputs"`
	// Concurrency is how many copies run at a time; nil: as many as the session has CPUs.
	Concurrency *int64 `json:"concurrency,omitzero"`
	// TimeoutS bounds one item. The time-out of the execution bounds all of them together.
	TimeoutS *float64    `json:"timeout_s,omitzero"`
	OnError  *MapOnError `json:"on_error,omitzero"`
}

// MapOnError says what a failed item means for the others.
type MapOnError string

// What a failed item means; the first is the default.
const (
	MapContinue MapOnError = "continue"
	MapStop     MapOnError = "stop" // the others are cancelled
)

// MapStatus is how an item of a map ended.
type MapStatus string

// The statuses of items.
const (
	MapOK        MapStatus = "ok"
	MapError     MapStatus = "error"     // an exception reached its end
	MapTimeout   MapStatus = "timeout"   // it took longer than timeout_s
	MapDied      MapStatus = "died"      // its process ended before it did
	MapCancelled MapStatus = "cancelled" // the map ended before it did
	MapUnlogged  MapStatus = "unlogged"  // it ended, and the log had no room to say how
)

// MapItem is what came of one input.
type MapItem struct {
	Index     int          `json:"index"`
	Status    MapStatus    `json:"status"`
	Reason    string       `json:"reason,omitzero"`     // of died: exit:7, signal:SIGKILL; of timeout: its length; of cancelled: why the map ended
	Value     Raw          `json:"value,omitzero"`      // of ok only
	ValueType MapValueType `json:"value_type,omitzero"` // where Value is not the value itself
	Text      string       `json:"text"`                // what it printed, and its traceback
	Error     *ErrorOutput `json:"error,omitzero"`
	Outputs   []Output     `json:"outputs"` // what it showed
	Artifacts []Artifact   `json:"artifacts"`
	Duration  int64        `json:"duration_ms"`
	Omitted   bool         `json:"omitted,omitzero"` // there was no room for what it printed and showed, and for its value
}

// MapValueType says what the value of an item is instead of the value.
type MapValueType string

// MapRepr is a string with the repr of a value that JSON cannot express.
const MapRepr MapValueType = "repr"

// MapSummary is the last line of a map. Status, Reason and Error are the execution's, and each number counts items.
type MapSummary struct {
	Type        string          `json:"type"` // MapSummaryType
	ExecutionID string          `json:"execution_id"`
	Status      ExecutionStatus `json:"status"`
	Reason      string          `json:"reason,omitzero"`
	Error       *ErrorOutput    `json:"error,omitzero"`
	Items       int             `json:"items"`
	OK          int             `json:"ok"`
	Failed      int             `json:"failed"`
	Cancelled   int             `json:"cancelled"`
	Duration    int64           `json:"duration_ms"`
}

// MapSummaryType tells a summary from an item, which has no type.
const MapSummaryType = "summary"

// MapResult is a whole map, in the order of the inputs.
type MapResult struct {
	Items   []MapItem  `json:"items"`
	Summary MapSummary `json:"summary"`
}
