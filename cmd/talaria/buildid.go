package main

import (
	"debug/elf"
	"os"
	"sync"
)

// goNote is the type of the note that holds the build id which the Go linker writes.
const goNote = 4

// buildID tells this very program from all others of its name: an update makes another host for new sessions.
var buildID = sync.OnceValue(func() string {
	id, err := readBuildID("/proc/self/exe")
	if err != nil || id == "" {
		return version
	}
	return id
})

func readBuildID(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	program, err := elf.NewFile(f)
	if err != nil {
		return "", err
	}
	section := program.Section(".note.go.buildid")
	if section == nil {
		return "", nil
	}
	note, err := section.Data()
	if err != nil || len(note) < 16 {
		return "", err
	}
	// Sizes of name and text, the type, the name "Go\0\0", the text.
	size := program.ByteOrder.Uint32(note[4:])
	if program.ByteOrder.Uint32(note[8:]) != goNote || int(size) > len(note)-16 {
		return "", nil
	}
	return string(note[16 : 16+size]), nil
}
