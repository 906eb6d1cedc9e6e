package kernel

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// errorFrames is the optional array of the frames of a traceback that has that many lines. A frame whose lines were cut
// off, or which comes after maxErrFrames others, is left out.
func (f *fields) errorFrames(name string, lines int) []ErrorFrame {
	v, ok := f.take(name)
	if !ok {
		return nil
	}
	if v.Kind() != '[' {
		f.fail(name, "not an array")
		return nil
	}
	var frames []ErrorFrame
	d := jsontext.NewDecoder(bytes.NewBuffer(v))
	_, _ = d.ReadToken()
	for d.PeekKind() != ']' {
		value, err := d.ReadValue()
		if err != nil {
			f.fail(name, "not an array")
			break
		}
		if len(frames) == maxErrFrames {
			continue
		}
		frame, err := decodeErrorFrame(value)
		if err != nil {
			f.fail(name, err.Error())
			break
		}
		if frame.Start <= frame.End && frame.End <= lines {
			frames = append(frames, frame)
		}
	}
	return frames
}

func decodeErrorFrame(value []byte) (ErrorFrame, error) {
	f, err := splitFields(value)
	if err != nil {
		return ErrorFrame{}, err
	}
	frame := ErrorFrame{
		File:     truncate(f.text("file"), maxPathLen),
		Line:     int64(f.whole("line")),
		Function: truncate(f.text("function"), maxEname),
		User:     f.flag("user"),
		Cell:     f.optionalName("cell"),
		Start:    int(f.whole("traceback_start")),
		End:      int(f.whole("traceback_end")),
	}
	return frame, f.check()
}
