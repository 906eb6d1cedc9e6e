package transfer

import "encoding/json"

// Cell returns code of a language as the interpreter runs it: each cell of bash and javascript in a process of its
// own, all else as Python. Cells of bash begin with the state that the one before left.
func Cell(language, code string) string {
	switch language {
	case "bash":
		return "%%bash --state\n" + code
	case "javascript":
		return "%%script node\n" + code
	}
	return code
}

// Enter returns a cell that changes the working directory.
func Enter(folder string) string { return "__import__('os').chdir(" + Literal(folder) + ")" }

// Literal returns v, a string or a map of strings, as Python writes it. Strings in JSON are strings in Python, too.
func Literal(v any) string {
	text, err := json.Marshal(v)
	if err != nil { // strings and their maps always encode
		panic(err)
	}
	return string(text)
}
