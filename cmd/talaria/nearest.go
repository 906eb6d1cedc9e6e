package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// suggestion names the known word that an unknown one was probably meant to be, else says otherwise.
func suggestion[V any](unknown string, known map[string]V, otherwise string) string {
	unknown = strings.ToLower(unknown)
	best, least := "", len(unknown)/3+2
	for _, name := range slices.Sorted(maps.Keys(known)) {
		d := distance(unknown, name)
		if len(unknown) >= 3 && (strings.HasPrefix(name, unknown) || strings.HasPrefix(unknown, name)) {
			d = min(d, 1)
		}
		if d < least {
			best, least = name, d
		}
	}
	if best == "" {
		return otherwise
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// distance is how many letters have to be added, dropped or changed to get from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
