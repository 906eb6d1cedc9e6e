package api

import (
	"math"
	"strings"

	"github.com/go-json-experiment/json"
)

// Output is one output of a cell as nbformat 4 has it. Exactly the fields of its OutputType are written.
type Output struct {
	OutputType     string // stream, display_data, execute_result or error
	Name           string // stream
	Text           string // stream
	Data           MIMEBundle
	Metadata       map[string]Raw
	ExecutionCount int64 // execute_result
	Error          ErrorOutput
}

type (
	streamOutput struct {
		OutputType string `json:"output_type"`
		Name       string `json:"name"`
		Text       string `json:"text"`
	}
	displayOutput struct {
		OutputType string         `json:"output_type"`
		Data       MIMEBundle     `json:"data"`
		Metadata   map[string]Raw `json:"metadata"`
	}
	resultOutput struct {
		displayOutput
		ExecutionCount int64 `json:"execution_count"`
	}
	errorOutput struct {
		OutputType string   `json:"output_type"`
		Ename      string   `json:"ename"`
		Evalue     string   `json:"evalue"`
		Traceback  []string `json:"traceback"`
	}
)

// MarshalJSON implements [json.Marshaler].
func (o Output) MarshalJSON() ([]byte, error) {
	switch o.OutputType {
	case "stream":
		return Marshal(streamOutput{o.OutputType, o.Name, o.Text})
	case "execute_result":
		return Marshal(resultOutput{displayOutput{o.OutputType, o.Data, o.Metadata}, o.ExecutionCount})
	case "error":
		return Marshal(errorOutput{o.OutputType, o.Error.Ename, o.Error.Evalue, o.Error.Traceback})
	default:
		return Marshal(displayOutput{o.OutputType, o.Data, o.Metadata})
	}
}

// UnmarshalJSON implements [json.Unmarshaler].
func (o *Output) UnmarshalJSON(data []byte) error {
	var all struct {
		OutputType     string         `json:"output_type"`
		Name           string         `json:"name"`
		Text           string         `json:"text"`
		Data           MIMEBundle     `json:"data"`
		Metadata       map[string]Raw `json:"metadata"`
		ExecutionCount int64          `json:"execution_count"`
		ErrorOutput
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	*o = Output{all.OutputType, all.Name, all.Text, all.Data, all.Metadata, all.ExecutionCount, all.ErrorOutput}
	return nil
}

// Outputs folds the events of one execution into its outputs: adjacent text of one stream is joined, updates of a
// display replace it where it stands, and clear_output empties the list. The zero value is ready to use; it is
// not safe for concurrent use.
type Outputs struct {
	list     []Output
	text     []*strings.Builder // beside list: the text of a stream output
	sizes    []int              // beside list: bytes of the events that it is made of
	size     int                // the sum of sizes
	displays map[string][]int   // display id to places in list
	clear    bool               // empty the list when the next output comes
}

// Add takes the next event of the execution. Events that are not outputs are ignored.
func (f *Outputs) Add(body EventBody) { f.AddWithin(body, 0, math.MaxInt) }

// AddWithin takes the next event like Add, unless the events that the list is made of would then have more than limit
// bytes together; size is the size of this one. It reports whether the event was taken.
func (f *Outputs) AddWithin(body EventBody, size, limit int) bool {
	before := f.size
	switch b := body.(type) {
	case Stream, DisplayData, ExecuteResult, ErrorEvent:
		if f.clear {
			before = 0
		}
	case UpdateDisplayData:
		for _, i := range f.displays[b.DisplayID] {
			before += size - f.sizes[i]
		}
		before -= size // added once more below
		if len(f.displays[b.DisplayID]) == 0 {
			return true
		}
	default:
		size = 0
	}
	if size > limit-before {
		return false
	}
	f.take(body, size)
	return true
}

func (f *Outputs) take(body EventBody, size int) {
	switch b := body.(type) {
	case Stream:
		f.beforeOutput()
		if n := len(f.list); n > 0 && f.list[n-1].OutputType == "stream" && f.list[n-1].Name == b.Name {
			f.text[n-1].WriteString(b.Text)
			f.grow(n-1, size)
			return
		}
		f.add(Output{OutputType: "stream", Name: b.Name}, size)
		f.text[len(f.text)-1].WriteString(b.Text)
	case DisplayData:
		f.beforeOutput()
		if b.DisplayID != "" {
			if f.displays == nil {
				f.displays = map[string][]int{}
			}
			f.displays[b.DisplayID] = append(f.displays[b.DisplayID], len(f.list))
		}
		f.add(Output{OutputType: "display_data", Data: b.Data, Metadata: b.Metadata}, size)
	case UpdateDisplayData:
		for _, i := range f.displays[b.DisplayID] {
			f.list[i].Data, f.list[i].Metadata = b.Data, b.Metadata
			f.grow(i, size-f.sizes[i])
		}
	case ExecuteResult:
		f.beforeOutput()
		f.add(Output{OutputType: "execute_result", Data: b.Data, Metadata: b.Metadata, ExecutionCount: b.ExecutionCount}, size)
	case ErrorEvent:
		f.beforeOutput()
		plain := ErrorOutput{Ename: b.Ename, Evalue: b.Evalue, Traceback: b.Traceback} // all that nbformat has
		f.add(Output{OutputType: "error", Error: plain}, size)
	case ClearOutput:
		if b.Wait {
			f.clear = true
		} else {
			f.empty()
		}
	}
}

func (f *Outputs) beforeOutput() {
	if f.clear {
		f.empty()
	}
}

func (f *Outputs) add(o Output, size int) {
	f.list = append(f.list, o)
	f.text = append(f.text, new(strings.Builder))
	f.sizes = append(f.sizes, 0)
	f.grow(len(f.list)-1, size)
}

func (f *Outputs) grow(i, size int) {
	f.sizes[i] += size
	f.size += size
}

func (f *Outputs) empty() { *f = Outputs{} }

// List is the outputs so far, never nil. The list is the caller's.
func (f *Outputs) List() []Output {
	list := make([]Output, len(f.list))
	for i, o := range f.list {
		if o.OutputType == "stream" {
			o.Text = f.text[i].String()
		}
		list[i] = o
	}
	return list
}
