package frame

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"talaria/api"
	"talaria/kernel/command"
)

// tablePage decodes a page of a table: rows of plain cells, all of the same length.
func (f *fields) tablePage() *command.TablePage {
	p := command.TablePage{State: command.TableState(f.oneOf("state", string(command.TableOK), string(command.TableGone), string(command.TableChanged), string(command.TableUnsortable)))}
	p.Reason = f.optionalShort("reason")
	p.Page = api.TableReply{Offset: f.count("offset"), Total: f.count("total"), Rows: f.rows("rows")}
	if p.Page.Offset > p.Page.Total {
		f.fail("offset", "beyond the end")
	}
	return &p
}

func (f *fields) rows(name string) [][]api.Raw {
	rows, size := [][]api.Raw{}, 0
	f.each(name, func(value jsontext.Value) {
		row, ok := cells(value)
		size += len(value)
		if !ok || len(rows) == maxTableRows || len(rows) > 0 && len(row) != len(rows[0]) || size > maxTableBytes {
			f.fail(name, "not a page of a table")
			return
		}
		rows = append(rows, row)
	})
	return rows
}

// cells returns one row, if it is a row.
func cells(row jsontext.Value) (list []api.Raw, ok bool) {
	list, plain := []api.Raw{}, true
	array := elements(row, func(cell jsontext.Value) bool {
		kind := cell.Kind()
		plain = kind != '[' && kind != '{' && len(cell) <= maxTableCell && len(list) < maxTableFields
		list = append(list, slices.Clone(cell))
		return plain
	})
	return list, array && plain
}
