package notebook

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"

	"talaria/api"
	"talaria/store"
)

const (
	maxCells = 10_000
	maxTitle = 1024
)

// Document returns the arrangement of the notebook page. Before it is first saved, it has the cells of the imported notebook.
func (n *Notebook) Document(ctx context.Context) (api.Document, error) {
	doc, err := n.cfg.Store.Document(ctx, n.cfg.Session)
	if err != nil {
		return doc, n.cfg.ReadError(ctx, err)
	}
	through, imported, err := n.cfg.Store.HiddenThrough(ctx, n.cfg.Session)
	if err != nil {
		return doc, n.cfg.ReadError(ctx, err)
	}
	doc.Imported = imported
	if doc.Revision == 0 {
		doc.Cells = []api.DocumentCell{}
		if imported {
			doc.Through = through
			if doc.Cells, err = n.importedCells(ctx); err != nil {
				return doc, err
			}
		}
	}
	return doc, nil
}

// importedCells returns the cells of the imported notebook.
func (n *Notebook) importedCells(ctx context.Context) ([]api.DocumentCell, error) {
	data, _, err := n.cfg.Store.Notebook(ctx, n.cfg.Session)
	if err != nil {
		return nil, n.cfg.ReadError(ctx, err)
	}
	return documentCells(data)
}

// documentCells returns the cells of a notebook file.
func documentCells(data []byte) ([]api.DocumentCell, error) {
	var nb struct {
		Cells []struct {
			ID       string  `json:"id"`
			CellType string  `json:"cell_type"`
			Source   api.Raw `json:"source"`
			Other    api.Raw `json:",unknown"`
		} `json:"cells"`
		Other api.Raw `json:",unknown"`
	}
	if err := jsonv2.Unmarshal(data, &nb); err != nil {
		return nil, err
	}
	cells := make([]api.DocumentCell, len(nb.Cells))
	for i, cell := range nb.Cells {
		cells[i] = api.DocumentCell{ID: cell.ID, CellType: cell.CellType, Source: joinedSource(cell.Source)}
	}
	return cells, nil
}

// joinedSource returns a cell's source, which nbformat stores as one string or as a list of lines.
func joinedSource(raw api.Raw) string {
	var text string
	if jsonv2.Unmarshal(raw, &text) == nil {
		return text
	}
	var lines []string
	if jsonv2.Unmarshal(raw, &lines) == nil {
		return strings.Join(lines, "")
	}
	return ""
}

// PutDocument saves the document in place of the revision that r names, and returns it with its new revision.
// It fails with [api.CodeRevisionConflict] if the document has another revision. Readers of the log get an event.
func (n *Notebook) PutDocument(ctx context.Context, revision int64, r api.DocumentRequest) (api.Document, error) {
	if err := checkDocument(r); err != nil {
		return api.Document{}, err
	}
	doc := api.Document{Revision: revision, Title: r.Title, Cells: r.Cells}
	if doc.Cells == nil {
		doc.Cells = []api.DocumentCell{}
	}
	last := n.cfg.LastSeq()
	switch {
	case r.Through == nil:
		doc.Through = last
	case *r.Through < 0 || *r.Through > last:
		return doc, api.Invalid("field \"through\" must be a seq of the log, 0 to %d", last)
	default:
		doc.Through = *r.Through
	}
	err := n.save(ctx, doc, nil)
	if errors.Is(err, store.ErrNotFound) {
		return doc, api.Errorf(api.CodeRevisionConflict, "the document has changed since you read it; read it again, merge your changes, and save")
	}
	if err != nil {
		return doc, err
	}
	if _, doc.Imported, err = n.cfg.Store.HiddenThrough(ctx, n.cfg.Session); err != nil {
		return doc, n.cfg.ReadError(ctx, err)
	}
	doc.Revision++
	return doc, nil
}

// save writes the revision after doc.Revision, makes the other change, and appends the event that announces
// it.
func (n *Notebook) save(ctx context.Context, doc api.Document, also func(*store.Tx) error) error {
	write := func(tx *store.Tx) error {
		if also != nil {
			if err := also(tx); err != nil {
				return err
			}
		}
		return tx.PutDocument(n.cfg.Session, doc)
	}
	return n.cfg.Commit(ctx, write, api.DocumentChanged{Revision: doc.Revision + 1})
}

func checkDocument(r api.DocumentRequest) error {
	if len(r.Title) > maxTitle {
		return api.Invalid("field \"title\" is longer than %d bytes", maxTitle)
	}
	if len(r.Cells) > maxCells {
		return api.Invalid("there are %d cells; a document can have at most %d", len(r.Cells), maxCells)
	}
	seen := make(map[string]bool, len(r.Cells))
	for i, cell := range r.Cells {
		switch {
		case !api.ValidID(cell.ID):
			return api.Invalid("cells[%d].id %.40q must match [A-Za-z0-9][A-Za-z0-9._:-]{0,127}", i, cell.ID)
		case seen[cell.ID]:
			return api.Invalid("cells[%d].id %q is used twice", i, cell.ID)
		case cell.CellType != "code" && cell.CellType != "markdown" && cell.CellType != "raw":
			return api.Invalid("cells[%d].cell_type %.40q must be code, markdown or raw", i, cell.CellType)
		case !utf8.ValidString(cell.Source):
			return api.Invalid("cells[%d].source is not UTF-8", i)
		}
		seen[cell.ID] = true
	}
	return nil
}
