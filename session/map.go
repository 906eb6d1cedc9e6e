package session

import (
	"bytes"
	"encoding/json"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"

	"talaria/api"
	"talaria/session/files"
	"talaria/session/settings"
	"talaria/session/transcript"
)

// mapMagic is the first line of the cell that runs a map. See the runner's magics/mapping.py.
const mapMagic = "%%map"

const (
	// maxMapItem is how much a log without room for more keeps of a display that tells of an item.
	maxMapItem = 1 << 10
	// maxMapResult and maxMapOutputs bound what one item says came of it, and what it shows. Kernels keep to less.
	maxMapResult  = 4 << 20
	maxMapOutputs = 17 << 20
)

// functionName is compiled when it is first needed: the classes of Unicode take longer than all other patterns together.
var functionName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[\p{L}_][\p{L}\p{N}_]*(\.[\p{L}_][\p{L}\p{N}_]*)*$`)
})

// MapRequest checks a request for a map and returns the execution that runs it.
func MapRequest(req api.MapRequest) (api.ExecutionRequest, error) {
	var none api.ExecutionRequest
	switch {
	case (req.Code == nil) == (req.Function == nil):
		return none, api.Invalid("a map needs either code or function")
	case req.Code != nil && strings.TrimSpace(*req.Code) == "":
		return none, api.Invalid("code is empty")
	case req.Function != nil && (len(*req.Function) > 256 || !functionName().MatchString(*req.Function)):
		return none, api.Invalid("function %.140q must be a name in the session, such as f or module.f", *req.Function)
	case req.Inputs == nil:
		return none, api.Invalid("inputs is missing")
	case len(req.Inputs) > api.MaxMapInputs:
		return none, api.Invalid("inputs has %d elements; the limit is %d", len(req.Inputs), api.MaxMapInputs)
	case req.Concurrency != nil && (*req.Concurrency < 1 || *req.Concurrency > api.MaxMapConcurrency):
		return none, api.Invalid("concurrency must be between 1 and %d", api.MaxMapConcurrency)
	case req.TimeoutS != nil && !(*req.TimeoutS > 0 && *req.TimeoutS <= settings.MaxSeconds):
		return none, api.Invalid("timeout_s must be above 0, and at most %d", settings.MaxSeconds)
	case req.OnError != nil && *req.OnError != api.MapContinue && *req.OnError != api.MapStop:
		return none, api.Invalid("on_error must be %q or %q", api.MapContinue, api.MapStop)
	}
	options, err := api.Marshal(struct {
		Function    *string         `json:"function,omitzero"`
		Concurrency *int64          `json:"concurrency,omitzero"`
		TimeoutS    *float64        `json:"timeout_s,omitzero"`
		OnError     *api.MapOnError `json:"on_error,omitzero"`
		Inputs      []api.Raw       `json:"inputs"`
	}{req.Function, req.Concurrency, req.TimeoutS, req.OnError, req.Inputs})
	if err != nil {
		return none, err
	}
	line := api.Raw(options)
	if err := line.Compact(); err != nil {
		return none, err
	}
	code := mapMagic + "\n" + string(line)
	if req.Code != nil {
		code += "\n" + *req.Code
	}
	return api.ExecutionRequest{ID: req.ID, Code: &code}, nil
}

// MapFold makes the items of a map out of the events of its execution. It is not safe for concurrent use.
type MapFold struct {
	s       *Session
	id      string // of the execution
	stop    bool
	pending int // the item whose outputs come, or -1
	outputs api.Outputs
	cut     bool // outputs lack some
	seen    []bool
	summary api.MapSummary
}

// MapFold returns the fold for the map that an execution runs for a request.
func (s *Session) MapFold(executionID string, req api.MapRequest) *MapFold {
	return &MapFold{
		s: s, id: executionID, stop: req.OnError != nil && *req.OnError == api.MapStop, pending: -1, seen: make([]bool, len(req.Inputs)),
		summary: api.MapSummary{Type: api.MapSummaryType, ExecutionID: executionID, Items: len(req.Inputs), Status: api.StatusQueued},
	}
}

// mapPlace is where a display belongs that code in a sandbox says is of a map.
type mapPlace struct {
	Map      string        `json:"map"`
	Index    int           `json:"index"`
	Status   api.MapStatus `json:"status"`
	Reason   string        `json:"reason"`
	Duration int64         `json:"duration_ms"`
}

// mapOutcome is what code in a sandbox says came of an item.
type mapOutcome struct {
	Value     api.Raw          `json:"value"`
	ValueType api.MapValueType `json:"value_type"`
	Text      string           `json:"text"`
	Error     *api.ErrorOutput `json:"error"`
	Files     []mapFile        `json:"files"`
}

// mapFile is a path and a size, as an array.
type mapFile struct {
	path string
	size int64
}

func (f *mapFile) UnmarshalJSON(data []byte) error {
	var pair []api.Raw
	if err := jsonv2.Unmarshal(data, &pair); err != nil {
		return err
	}
	if len(pair) != 2 {
		return api.Invalid("a file of an item needs a path and a size")
	}
	if err := jsonv2.Unmarshal(pair[0], &f.path); err != nil {
		return err
	}
	return jsonv2.Unmarshal(pair[1], &f.size)
}

// Add takes the next event of the execution, and returns the items that it tells of: with the last event, also those
// that never ended. Each item comes once.
func (f *MapFold) Add(event api.Event) ([]api.MapItem, error) {
	decoded, err := event.Decoded()
	if err != nil {
		return nil, err
	}
	switch body := decoded.Body.(type) {
	case api.ExecutionStarted:
		f.summary.Status = api.StatusRunning
	case api.DisplayData:
		if item, ok := f.display(body); ok {
			return []api.MapItem{item}, nil
		}
	case api.UpdateDisplayData:
		f.keep(body, body.Data, body.Metadata)
	case api.ExecutionFinished:
		e := body.Execution
		f.summary.Status, f.summary.Reason, f.summary.Error, f.summary.Duration = e.Status, e.Reason, e.Error, e.Usage.DurationMS
		return f.missing(e), nil
	}
	return nil, nil
}

// Summary is that of the events so far.
func (f *MapFold) Summary() api.MapSummary { return f.summary }

// display returns the item that a display of the execution tells of. Any other is what an item showed, or the cell.
func (f *MapFold) display(body api.DisplayData) (api.MapItem, bool) {
	raw, ok := body.Data[api.MediaMapItem]
	if !ok {
		f.keep(body, body.Data, body.Metadata)
		return api.MapItem{}, false
	}
	var place mapPlace
	if jsonv2.Unmarshal(raw, &place) != nil || !f.isOpen(place) || !isMapStatus(place.Status) {
		return api.MapItem{}, false // the user's own display
	}
	item := api.MapItem{
		Index: place.Index, Status: place.Status, Reason: place.Reason, Duration: place.Duration,
		Outputs: []api.Output{}, Artifacts: []api.Artifact{},
	}
	if f.pending == place.Index {
		item.Outputs, item.Omitted = f.outputs.List(), f.cut
	}
	f.pending, f.outputs, f.cut = -1, api.Outputs{}, false
	var outcome mapOutcome
	if rest, ok := body.Data[api.MediaMapResult]; !ok || len(rest) > maxMapResult || jsonv2.Unmarshal(rest, &outcome) != nil {
		item.Omitted = true
	} else {
		f.fill(&item, outcome)
	}
	f.count(item)
	return item, true
}

// keep keeps what an item showed until it ends.
func (f *MapFold) keep(body api.EventBody, data api.MIMEBundle, metadata map[string]api.Raw) {
	size := 0
	for mime, value := range data {
		size += len(mime) + len(value)
	}
	if f.belongs(metadata) && !f.outputs.AddWithin(body, size, maxMapOutputs) {
		f.cut = true
	}
}

// belongs reports whether metadata is that of a display of an item that has not ended, which then is the pending one.
func (f *MapFold) belongs(metadata map[string]api.Raw) bool {
	var place mapPlace
	raw, ok := metadata[api.MapMetadata]
	if !ok || jsonv2.Unmarshal(raw, &place) != nil || !f.isOpen(place) {
		return false
	}
	if f.pending != place.Index {
		f.pending, f.outputs, f.cut = place.Index, api.Outputs{}, false
	}
	return true
}

func (f *MapFold) isOpen(p mapPlace) bool {
	return p.Map == f.id && p.Index >= 0 && p.Index < len(f.seen) && !f.seen[p.Index]
}

func isMapStatus(s api.MapStatus) bool {
	return s == api.MapOK || s == api.MapError || s == api.MapTimeout || s == api.MapDied
}

// fill puts into an item what the kernel says came of it.
func (f *MapFold) fill(item *api.MapItem, o mapOutcome) {
	if item.Status == api.MapOK {
		item.Value, item.ValueType = bytes.Clone(o.Value), o.ValueType
	}
	text := transcript.New(f.s.redact)
	text.Write(false, o.Text)
	if o.Error != nil {
		item.Error = o.Error
		text.Line(tracebackText(*o.Error))
	}
	item.Text = text.String()
	folder := "map/" + f.id + "/" + strconv.Itoa(item.Index) + "/"
	for _, file := range o.Files {
		if len(item.Artifacts) == maxArtifacts || !strings.HasPrefix(file.path, folder) || path.Clean(file.path) != file.path {
			continue
		}
		item.Artifacts = append(item.Artifacts, api.Artifact{
			Path: file.path, Change: api.Created, Size: &file.size, MediaType: files.MediaType(file.path, nil),
			URL: api.FileURL(f.s.clientID, file.path),
		})
	}
}

func (f *MapFold) count(item api.MapItem) {
	f.seen[item.Index] = true
	switch item.Status {
	case api.MapOK:
		f.summary.OK++
	case api.MapCancelled:
		f.summary.Cancelled++
	case api.MapUnlogged:
	default:
		f.summary.Failed++
	}
}

// missing returns the items of which the log tells nothing, now that the execution has ended.
func (f *MapFold) missing(e api.Execution) []api.MapItem {
	items := []api.MapItem{}
	for index, seen := range f.seen {
		if seen {
			continue
		}
		item := api.MapItem{Index: index, Status: api.MapUnlogged, Outputs: []api.Output{}, Artifacts: []api.Artifact{}, Omitted: true}
		switch {
		case e.Status != api.StatusOK:
			item.Status, item.Reason, item.Omitted = api.MapCancelled, string(e.Status), false
			if e.Reason != "" {
				item.Reason = e.Reason
			}
		case f.stop && f.summary.Failed > 0:
			item.Status, item.Reason, item.Omitted = api.MapCancelled, "on_error", false
		}
		items = append(items, item)
	}
	for _, item := range items {
		f.count(item)
	}
	return items
}

// isMapItem reports whether a display tells how an item of a map ended, in few bytes.
func isMapItem(data map[string]json.RawMessage) bool {
	item, ok := data[api.MediaMapItem]
	return ok && len(item) <= maxMapItem
}
