package kernel

import "github.com/go-json-experiment/json/jsontext"

// errorFrames is the optional array of the frames of a traceback that has that many lines. A frame whose lines were cut
// off, or which comes after maxErrFrames others, is left out.
func (f *fields) errorFrames(name string, lines int) []ErrorFrame {
	if _, ok := f.take(name); !ok {
		return nil
	}
	var frames []ErrorFrame
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
