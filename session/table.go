package session

import (
	"context"

	"talaria/api"
	"talaria/kernel/command"
)

// The bounds of a question about a table.
const (
	tableRows     = 500 // of one page
	tableDefault  = 50
	tableSorts    = 8
	tableColumns  = 1 << 20
	tableIDLength = 64
	tableFilter   = 200 // bytes
)

// Table returns rows of a table that was shown, from the object itself. It is a question like [Interpreter.Complete].
func (i *Interpreter) Table(ctx context.Context, req api.TableRequest) (page api.TableReply, err error) {
	q, err := tableQuery(req)
	if err != nil {
		return page, err
	}
	answer, err := ask(ctx, i, command.Query{Kind: command.QueryTable, Table: &q})
	if err != nil {
		return page, err
	}
	switch t := answer.Table; t.State {
	case command.TableOK:
		return t.Page, nil
	case command.TableChanged:
		return page, api.Errorf(api.CodeTableGone, "the rows or columns of this table have changed; show it again to page through it")
	case command.TableUnsortable:
		return page, api.Errorf(api.CodeNotSortable, "this table cannot be sorted or filtered this way: %s", t.Reason)
	}
	return page, api.Errorf(api.CodeTableGone, "this table's data is gone: the object was dropped, or its kernel has ended; show it again")
}

func tableQuery(req api.TableRequest) (q command.TableQuery, err error) {
	q = command.TableQuery{Sort: []api.TableSort{}, Count: tableDefault}
	if req.Table == nil {
		return q, api.Invalid("field \"table\" is missing")
	}
	if q.Table = *req.Table; len(q.Table) == 0 || len(q.Table) > tableIDLength {
		return q, api.Invalid("field \"table\" must be the table_id that came with a table")
	}
	if q.Filter = req.Filter; len(q.Filter) > tableFilter {
		return q, api.Invalid("field \"filter\" is longer than %d bytes", tableFilter)
	}
	if len(req.Sort) > tableSorts {
		return q, api.Invalid("field \"sort\" has more than %d columns", tableSorts)
	}
	for _, s := range req.Sort {
		if s.Column < 0 || s.Column > tableColumns {
			return q, api.Invalid("field \"column\" must be the position of a column, counted from 0")
		}
		q.Sort = append(q.Sort, s)
	}
	if req.Offset != nil {
		if q.Offset = *req.Offset; q.Offset < 0 || q.Offset > 1<<53 {
			return q, api.Invalid("field \"offset\" must be a row number, counted from 0")
		}
	}
	if req.Count != nil {
		if q.Count = *req.Count; q.Count < 1 || q.Count > tableRows {
			return q, api.Invalid("field \"count\" must be between 1 and %d", tableRows)
		}
	}
	return q, nil
}
