package schema

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// maxCost bounds the subschemas that a schema has when all of its references are replaced by what they refer to.
const maxCost = 20_000

// cost counts the subschemas of a document, references replaced. A few lines of definitions that refer to each other twice
// would otherwise take hours to check a value against.
type cost struct {
	root  any
	known map[string]int // by the pointer of a reference; those being counted are 1, as a recursive one ends there
}

// maxLevels bounds the nesting of a schema, as the time to compile one grows with its square.
const maxLevels = 256

func checkCost(doc any) error {
	if deeper(doc, maxLevels) {
		return fmt.Errorf("it is nested deeper than the limit of %d levels; refer to definitions instead", maxLevels)
	}
	c := &cost{root: doc, known: map[string]int{}}
	if c.of(doc) > maxCost {
		return fmt.Errorf("its references stand for more schemas than the limit of %d; refer to fewer definitions", maxCost)
	}
	return nil
}

// deeper reports whether a value is nested more than some levels deep.
func deeper(v any, levels int) bool {
	if levels < 0 {
		return true
	}
	switch v := v.(type) {
	case map[string]any:
		for _, value := range v {
			if deeper(value, levels-1) {
				return true
			}
		}
	case []any:
		for _, value := range v {
			if deeper(value, levels-1) {
				return true
			}
		}
	}
	return false
}

func (c *cost) of(v any) int {
	total := 1
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			total += c.of(value)
			if ref, ok := value.(string); ok && (key == "$ref" || key == "$dynamicRef") {
				total += c.ofRef(ref)
			}
			total = min(total, maxCost+1)
		}
	case []any:
		for _, value := range v {
			total = min(total+c.of(value), maxCost+1)
		}
	}
	return total
}

func (c *cost) ofRef(ref string) int {
	if n, ok := c.known[ref]; ok {
		return n
	}
	c.known[ref] = 1
	n := c.of(c.target(ref))
	c.known[ref] = n
	return n
}

// target returns what a reference by pointer refers to, or nil.
func (c *cost) target(ref string) any {
	_, pointer, _ := strings.Cut(ref, "#")
	if plain, err := url.PathUnescape(pointer); err == nil {
		pointer = plain
	}
	v := c.root
	for _, step := range strings.Split(pointer, "/")[1:] {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		switch in := v.(type) {
		case map[string]any:
			v = in[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(in) {
				return nil
			}
			v = in[i]
		default:
			return nil
		}
	}
	return v
}
