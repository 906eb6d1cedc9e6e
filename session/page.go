package session

import (
	"cmp"
	"strconv"

	"talaria/api"
)

// PageOf makes a page of a list, which list reads: rows numbered below before (0: from the newest), newest first and at most limit,
// and their numbers. The cursor is the number of the page's last item.
func PageOf[T any](q api.PageQuery, list func(before int64, limit int) ([]T, []int64, error)) (api.Page[T], error) {
	before, limit, err := position(q)
	if err != nil {
		return api.Page[T]{}, err
	}
	items, numbers, err := list(before, limit+1)
	if err != nil {
		return api.Page[T]{}, err
	}
	p := api.Page[T]{Items: items}
	if len(items) > limit {
		p.Items = items[:limit]
		p.NextCursor = cursor(numbers[limit-1])
	}
	return p, nil
}

// position returns the number below which a page begins, 0 for the newest, and the most items it may have.
func position(q api.PageQuery) (before int64, limit int, err error) {
	if q.Cursor != "" {
		before, err = strconv.ParseInt(q.Cursor, 36, 64)
		if err != nil || before <= 0 {
			return 0, 0, api.Invalid("cursor %.40q was not issued by this server; use next_cursor of the previous page", q.Cursor)
		}
	}
	return before, cmp.Or(q.Limit, api.DefaultPage), nil
}

func cursor(number int64) string { return strconv.FormatInt(number, 36) }
