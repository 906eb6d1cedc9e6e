package store

import (
	"database/sql/driver"
	"fmt"

	"github.com/go-json-experiment/json"

	"talaria/api"
)

// jsonColumn is a value in a JSON column; NULL reads as the value's zero.
type jsonColumn[T any] struct{ v *T }

func asJSON[T any](v *T) *jsonColumn[T] { return &jsonColumn[T]{v} }

// Value implements [driver.Valuer].
func (c *jsonColumn[T]) Value() (driver.Value, error) {
	b, err := api.Marshal(c.v)
	return string(b), err
}

// Scan implements [database/sql.Scanner].
func (c *jsonColumn[T]) Scan(src any) error {
	switch s := src.(type) {
	case nil:
		return nil
	case string:
		return json.Unmarshal([]byte(s), c.v)
	case []byte:
		return json.Unmarshal(s, c.v)
	}
	return fmt.Errorf("a JSON column holds %T", src)
}

// rawColumn is a column of JSON that is kept as received; NULL reads as nil.
type rawColumn struct{ v *api.Raw }

// Scan implements [database/sql.Scanner].
func (c rawColumn) Scan(src any) error {
	switch s := src.(type) {
	case string:
		*c.v = api.Raw(s)
	case []byte:
		*c.v = append(api.Raw(nil), s...)
	case nil:
	default:
		return fmt.Errorf("a JSON column holds %T", src)
	}
	return nil
}
