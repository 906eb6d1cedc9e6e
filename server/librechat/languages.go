package librechat

import (
	"regexp"
	"strings"

	"talaria/api"
)

// language is how code of one language is run: as a cell of the session, or else in a sandbox of its own.
type language struct {
	// cell returns the code as the session's interpreter runs it.
	cell func(code string, args []string) string
	run  string // the name in package run
	main string // the file that package run gets the code in, if there are others
}

// languages are those that work here, by the names that LibreChat gives its models.
var languages = map[string]language{
	"py":   {cell: func(code string, _ []string) string { return code }},
	"bash": {cell: script("bash -s --")},
	"js":   {cell: script("node -")},
	"c":    {run: "c", main: "main.c"},
	"cpp":  {run: "cpp", main: "main.cpp"},
	"go":   {run: "go", main: "main.go"},
	"java": {run: "java", main: "Main.java"},
	"rs":   {run: "rust", main: "main.rs"},
}

func languageOf(name string) (language, error) {
	l, ok := languages[strings.ToLower(name)]
	if !ok {
		return l, api.Errorf(api.CodeInvalidRequest, "Unsupported language: %.40s", name)
	}
	return l, nil
}

// script gives the code to a program as its standard input.
func script(program string) func(string, []string) string {
	return func(code string, args []string) string {
		line := "%%script " + program
		for _, a := range args {
			line += " " + quoted(a)
		}
		return line + "\n" + code
	}
}

// quoted is an argument as a shell writes it.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'"'"'`) + "'" }

var publicClass = regexp.MustCompile(`(?m)^\s*public\s+(?:(?:final|abstract|sealed|strictfp)\s+)*(?:class|record|enum|interface)\s+(\w+)`)

// entry names the file of the code: in Java it is that of the public class.
func (l language) entry(code string) string {
	if found := publicClass.FindStringSubmatch(code); l.run == "java" && found != nil {
		return found[1] + ".java"
	}
	return l.main
}
