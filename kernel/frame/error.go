package frame

import (
	"github.com/go-json-experiment/json/jsontext"

	"talaria/kernel/record"
)

// errorFrames returns the optional array of frames of a traceback with that many lines. It leaves out a frame whose
// lines were cut off, and all frames after the first maxErrFrames.
func (f *fields) errorFrames(name string, lines int) []record.ErrorFrame {
	if _, ok := f.take(name); !ok {
		return nil
	}
	var frames []record.ErrorFrame
	f.each(name, func(value jsontext.Value) {
		if len(frames) == maxErrFrames {
			return
		}
		frame, err := decodeErrorFrame(value)
		if err != nil {
			f.fail(name, err.Error())
		} else if frame.Start <= frame.End && frame.End <= lines {
			frames = append(frames, frame)
		}
	})
	return frames
}

func decodeErrorFrame(value []byte) (record.ErrorFrame, error) {
	f, err := splitFields(value)
	if err != nil {
		return record.ErrorFrame{}, err
	}
	frame := record.ErrorFrame{
		File:     Truncate(f.text("file"), maxPathLen),
		Line:     int64(f.whole("line")),
		Function: Truncate(f.text("function"), maxEname),
		User:     f.flag("user"),
		Cell:     f.optionalName("cell"),
		Start:    int(f.whole("traceback_start")),
		End:      int(f.whole("traceback_end")),
	}
	return frame, f.check()
}
