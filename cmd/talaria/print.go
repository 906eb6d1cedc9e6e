package main

import (
	"fmt"
	"io"

	"talaria/api"
)

// printJSON prints a value as one line of JSON.
func printJSON(w io.Writer, v any) error {
	line, err := api.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", line)
	return err
}
