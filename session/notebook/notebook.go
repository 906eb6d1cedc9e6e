// Package notebook keeps the notebook of a session: the document that arranges its cells, and its exchange with .ipynb files.
package notebook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"talaria/api"
	"talaria/store"
)

// file is an .ipynb of nbformat 4. Its cells are kept unchanged.
type file struct {
	Cells         []api.Raw `json:"cells"`
	Metadata      api.Raw   `json:"metadata"`
	NBFormat      int       `json:"nbformat"`
	NBFormatMinor int       `json:"nbformat_minor"`
}

type codeCell struct {
	CellType       string       `json:"cell_type"`
	ExecutionCount *int64       `json:"execution_count"`
	ID             string       `json:"id"`
	Metadata       struct{}     `json:"metadata"`
	Outputs        []api.Output `json:"outputs"`
	Source         string       `json:"source"`
}

type textCell struct {
	CellType string   `json:"cell_type"`
	ID       string   `json:"id"`
	Metadata struct{} `json:"metadata"`
	Source   string   `json:"source"`
}

// cellOrigin says which execution a cell was: the field talaria of its metadata.
type cellOrigin struct {
	ExecutionID string              `json:"execution_id"`
	Status      api.ExecutionStatus `json:"status"`
}

// Config is what a notebook needs of its session. Its functions are safe for concurrent use.
type Config struct {
	Store   *store.Store
	Session int64  // its number
	Python  string // the version of its environment
	// LastSeq returns the position of the newest event of its log.
	LastSeq func() int64
	// ReadError returns why the session cannot be read, from the error of the store.
	ReadError func(context.Context, error) error
	// Execution returns one of its executions with the outputs so far.
	Execution func(ctx context.Context, id string) (api.Execution, error)
	// ExecutionAt returns one that was queued up to a position of the log as it was there. over: it is known to have ended by then.
	ExecutionAt func(ctx context.Context, id string, seq int64, over bool) (api.Execution, error)
	// Commit makes a change of the document, together with the event that announces it.
	Commit func(ctx context.Context, write func(*store.Tx) error, announced api.DocumentChanged) error
	// Spare reports why nothing can be written to the server's disk, or nil.
	Spare func() error
}

// Notebook is the notebook of a session. It is safe for concurrent use. Its errors are for clients.
type Notebook struct{ cfg Config }

// New returns the notebook of a session.
func New(cfg Config) *Notebook { return &Notebook{cfg} }

// Export writes the session as an .ipynb: the cells of its document, each with the outputs of its last execution,
// then each execution that the document does not contain and that was not silent. Without a saved document these are
// all executions after the imported notebook, which comes first.
//
// It is written to w cell by cell, since all of them may not fit into memory.
func (n *Notebook) Export(ctx context.Context, w io.Writer) error {
	imported, hides, err := n.cfg.Store.Notebook(ctx, n.cfg.Session)
	if err != nil {
		return n.cfg.ReadError(ctx, err)
	}
	doc, err := n.Document(ctx)
	if err != nil {
		return err
	}
	nb := file{Cells: []api.Raw{}, NBFormat: 4, NBFormatMinor: 5}
	nb.Metadata, err = api.Marshal(map[string]any{
		"kernelspec":    map[string]string{"display_name": "Python 3", "language": "python", "name": "python3"},
		"language_info": map[string]string{"name": "python", "version": n.cfg.Python, "file_extension": ".py", "mimetype": "text/x-python"},
	})
	if err != nil {
		return err
	}
	var came []api.Raw // the imported cells, unchanged
	if imported != nil {
		if err := jsonv2.Unmarshal(imported, &nb); err != nil {
			return err
		}
		came, nb.Cells = nb.Cells, []api.Raw{}
		nb.NBFormatMinor = max(nb.NBFormatMinor, 5)
	}
	ids, err := n.cfg.Store.NotebookExecutions(ctx, n.cfg.Session, hides)
	if err != nil {
		return n.cfg.ReadError(ctx, err)
	}
	b := writer{n: n, w: w, ids: map[string]bool{}, came: map[string]api.Raw{}}
	for _, cell := range came {
		id, err := idOf(cell)
		if err != nil {
			return err
		}
		b.came[id] = cell
	}
	b.last = lastOf(ids)
	others, err := n.others(ctx, doc, ids)
	if err != nil {
		return err
	}
	for _, cell := range doc.Cells {
		if err := b.add(ctx, cell, true); err != nil {
			return err
		}
	}
	for _, execution := range others {
		id := api.CellOf(execution)
		b.last[id] = execution
		if err := b.add(ctx, api.DocumentCell{ID: id, CellType: "code"}, false); err != nil {
			return err
		}
	}
	return b.end(nb)
}

// lastOf returns the last of these executions, oldest first, for each cell.
func lastOf(ids []string) map[string]string {
	last := map[string]string{}
	for _, id := range ids {
		last[api.CellOf(id)] = id
	}
	return last
}

// others returns those of these executions that a notebook shows after the cells of its document.
func (n *Notebook) others(ctx context.Context, doc api.Document, ids []string) ([]string, error) {
	late, err := n.cfg.Store.QueuedAfter(ctx, n.cfg.Session, doc.Through)
	if err != nil {
		return nil, n.cfg.ReadError(ctx, err)
	}
	arranged, last := map[string]bool{}, lastOf(ids)
	for _, cell := range doc.Cells {
		arranged[cell.ID] = true
	}
	return slices.DeleteFunc(slices.Clone(ids), func(execution string) bool {
		id := api.CellOf(execution)
		return arranged[id] || doc.Revision > 0 && (!late[execution] || last[id] != execution)
	}), nil
}

// View calls begin with the document, and then take with the last execution of each cell as it was at a position of the log, in the order
// in which a notebook shows them. The executions come one by one, since all of them may not fit into memory.
func (n *Notebook) View(ctx context.Context, seq int64, begin func(api.Document) error, take func(api.Execution) error) error {
	doc, err := n.Document(ctx)
	if err != nil {
		return err
	}
	_, hides, err := n.cfg.Store.Notebook(ctx, n.cfg.Session)
	if err != nil {
		return n.cfg.ReadError(ctx, err)
	}
	ids, err := n.cfg.Store.NotebookExecutions(ctx, n.cfg.Session, hides)
	if err != nil {
		return n.cfg.ReadError(ctx, err)
	}
	over := map[string]bool{}
	if err := n.cfg.Store.ExecutionsThrough(ctx, n.cfg.Session, seq, func(id string, ended bool) { over[id] = ended }); err != nil {
		return n.cfg.ReadError(ctx, err)
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { _, queued := over[id]; return !queued })
	last := lastOf(ids)
	others, err := n.others(ctx, doc, ids)
	if err != nil {
		return err
	}
	var shown []string
	for _, cell := range doc.Cells {
		if id, ran := last[cell.ID]; ran && cell.CellType == "code" {
			shown = append(shown, id)
		}
	}
	for _, id := range others {
		if last[api.CellOf(id)] == id {
			shown = append(shown, id)
		}
	}
	if err := begin(doc); err != nil {
		return err
	}
	for _, id := range shown {
		e, err := n.cfg.ExecutionAt(ctx, id, seq, over[id])
		if errors.Is(err, api.Errorf(api.CodeExecutionNotFound, "")) { // forgotten meanwhile
			continue
		}
		if err != nil {
			return err
		}
		if err := take(e); err != nil {
			return err
		}
	}
	return nil
}

// writer writes a notebook file cell by cell, indented by one space for each level.
type writer struct {
	n     *Notebook
	w     io.Writer
	cells int
	ids   map[string]bool    // taken
	came  map[string]api.Raw // imported cells by id
	last  map[string]string  // executions by cell
}

// cell writes one cell of the file.
func (b *writer) cell(cell any) error {
	raw, err := api.Marshal(cell)
	if err != nil {
		return err
	}
	pretty := jsontext.Value(raw)
	if err := pretty.Indent(jsontext.WithIndentPrefix("  "), jsontext.WithIndent(" ")); err != nil {
		return err
	}
	before := ",\n  "
	if b.cells == 0 {
		before = "{\n \"cells\": [\n  "
	}
	b.cells++
	if _, err := io.WriteString(b.w, before); err != nil {
		return err
	}
	_, err = b.w.Write(pretty)
	return err
}

// end writes what follows the cells.
func (b *writer) end(nb file) error {
	cells := "\n ],\n"
	if b.cells == 0 {
		cells = "{\n \"cells\": [],\n"
	}
	metadata := jsontext.Value(nb.Metadata)
	if err := metadata.Indent(jsontext.WithIndentPrefix(" "), jsontext.WithIndent(" ")); err != nil {
		return err
	}
	_, err := fmt.Fprintf(b.w, "%s \"metadata\": %s,\n \"nbformat\": %d,\n \"nbformat_minor\": %d\n}\n",
		cells, metadata, nb.NBFormat, nb.NBFormatMinor)
	return err
}

// ran returns the execution with the outputs that a notebook has room for.
func (b *writer) ran(ctx context.Context, id string) (api.Execution, error) {
	e, err := b.n.cfg.Execution(ctx, id)
	if err == nil && e.OutputsOmitted {
		e.Outputs = append(e.Outputs, api.Output{OutputType: "stream", Name: "stderr",
			Text: "\n[outputs were left out here: they are too large, or no longer in the log]\n"})
	}
	return e, err
}

// add appends a cell: with the outputs of its last execution, as it was imported, or new. A cell that is not arranged
// in the document has the code of its execution.
func (b *writer) add(ctx context.Context, cell api.DocumentCell, arranged bool) error {
	id, ran := b.last[cell.ID]
	var made any
	switch came, imported := b.came[cell.ID]; {
	case cell.CellType == "code" && ran:
		e, err := b.ran(ctx, id)
		if errors.Is(err, api.Errorf(api.CodeExecutionNotFound, "")) { // forgotten meanwhile
			return nil
		}
		if err != nil {
			return err
		}
		if !arranged {
			cell.Source = e.Code
		}
		if !imported {
			came = api.Raw(`{"cell_type":"code","source":""}`)
		}
		kept, err := withSource(came, cell)
		if err != nil {
			return err
		}
		if made, err = withRun(kept, e, cellID(cell.ID, b.ids)); err != nil {
			return err
		}
	case imported:
		kept, err := withSource(came, cell)
		if err != nil {
			return err
		}
		if made, err = withCellID(kept, b.ids); err != nil {
			return err
		}
	case cell.CellType == "code":
		made = codeCell{CellType: "code", ID: cellID(cell.ID, b.ids), Outputs: []api.Output{}, Source: cell.Source}
	default:
		made = textCell{CellType: cell.CellType, ID: cellID(cell.ID, b.ids), Source: cell.Source}
	}
	return b.cell(made)
}

func idOf(cell api.Raw) (string, error) {
	var fields struct {
		ID    string  `json:"id"`
		Other api.Raw `json:",unknown"`
	}
	err := jsonv2.Unmarshal(cell, &fields)
	return fields.ID, err
}

// withSource returns an imported cell as the document has it now. A cell that became another kind loses the fields of
// the old one.
func withSource(came api.Raw, cell api.DocumentCell) (api.Raw, error) {
	var fields map[string]api.Raw
	if err := jsonv2.Unmarshal(came, &fields); err != nil {
		return nil, err
	}
	var kind string
	_ = jsonv2.Unmarshal(fields["cell_type"], &kind) // it was checked at the import
	if kind != cell.CellType {
		fields["cell_type"] = api.Text(cell.CellType)
		delete(fields, "outputs")
		delete(fields, "execution_count")
		if cell.CellType == "code" {
			fields["outputs"], fields["execution_count"] = api.Raw("[]"), api.Raw("null")
		} else {
			delete(fields, "attachments")
		}
	}
	if joinedSource(fields["source"]) != cell.Source {
		fields["source"] = api.Text(cell.Source)
	}
	return api.Marshal(fields)
}

// withRun returns a code cell with the outputs of an execution, and with all else that its metadata has: the tags and
// settings of other tools.
func withRun(cell api.Raw, e api.Execution, id string) (api.Raw, error) {
	var fields, metadata map[string]api.Raw
	if err := jsonv2.Unmarshal(cell, &fields); err != nil {
		return nil, err
	}
	_ = jsonv2.Unmarshal(fields["metadata"], &metadata) // metadata of another type counts as none
	if metadata == nil {
		metadata = map[string]api.Raw{}
	}
	origin, err := api.Marshal(cellOrigin{e.ID, e.Status})
	if err != nil {
		return nil, err
	}
	metadata["talaria"] = origin
	for name, value := range map[string]any{"id": id, "execution_count": e.ExecutionCount, "outputs": e.Outputs, "metadata": metadata} {
		if fields[name], err = api.Marshal(value); err != nil {
			return nil, err
		}
	}
	return api.Marshal(fields)
}

// cellID maps an id to what nbformat allows ([A-Za-z0-9_-]{1,64}), and makes it the only one of its kind.
func cellID(id string, taken map[string]bool) string {
	mapped := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '-'
	}, id)
	if mapped != "" && strings.ContainsRune("-_", rune(mapped[0])) { // our own ids begin differently
		mapped = "c" + mapped
	}
	mapped = mapped[:min(len(mapped), 64)]
	for mapped == "" || taken[mapped] {
		mapped = uuid.Must(uuid.NewV7()).String()
	}
	taken[mapped] = true
	return mapped
}

// withCellID gives an imported cell a valid id.
func withCellID(cell api.Raw, taken map[string]bool) (api.Raw, error) {
	var fields map[string]api.Raw
	if err := jsonv2.Unmarshal(cell, &fields); err != nil {
		return nil, err
	}
	var id string
	if raw, ok := fields["id"]; ok {
		_ = jsonv2.Unmarshal(raw, &id) // an id of another type counts as none
	}
	fields["id"] = api.Text(cellID(id, taken))
	return api.Marshal(fields)
}

// Import makes the session show the notebook in place of its cells so far. It runs nothing.
func (n *Notebook) Import(ctx context.Context, data []byte) error {
	if err := n.cfg.Spare(); err != nil {
		return err
	}
	var nb struct {
		file
		Other api.Raw `json:",unknown"`
	}
	if err := jsonv2.Unmarshal(data, &nb); err != nil {
		return api.Invalid("this is not a notebook: %v", err)
	}
	if nb.NBFormat != 4 {
		return api.Invalid("nbformat is %d; notebooks of nbformat 4 can be imported (convert it with jupyter nbconvert)", nb.NBFormat)
	}
	ids := map[string]bool{}
	for i, cell := range nb.Cells {
		err := checkCell(cell)
		if err == nil { // the document and later exports use the same id
			nb.Cells[i], err = withCellID(cell, ids)
		}
		if err != nil {
			return api.Invalid("cells[%d]: %v", i, err)
		}
	}
	if nb.Metadata == nil {
		nb.Metadata = api.Raw("{}")
	}
	kept, err := api.Marshal(nb.file)
	if err != nil {
		return err
	}
	cells, err := documentCells(kept)
	if err != nil {
		return err
	}
	for {
		before, err := n.cfg.Store.Document(ctx, n.cfg.Session)
		if err != nil {
			return n.cfg.ReadError(ctx, err)
		}
		doc := api.Document{Revision: before.Revision, Title: before.Title, Through: n.cfg.LastSeq(), Cells: cells}
		err = n.save(ctx, doc, func(tx *store.Tx) error { return tx.PutNotebook(n.cfg.Session, kept) })
		if !errors.Is(err, store.ErrNotFound) { // otherwise somebody saved it in between
			return err
		}
	}
}

func checkCell(raw api.Raw) error {
	var cell struct {
		CellType string    `json:"cell_type"`
		Source   api.Raw   `json:"source"`
		Outputs  []api.Raw `json:"outputs"`
		Other    api.Raw   `json:",unknown"`
	}
	if err := jsonv2.Unmarshal(raw, &cell); err != nil {
		return err
	}
	switch cell.CellType {
	case "code", "markdown", "raw":
	default:
		return api.Invalid("cell_type %.40q must be code, markdown or raw", cell.CellType)
	}
	switch k := cell.Source.Kind(); k {
	case '"', '[':
		return nil
	}
	return api.Invalid("source must be a string or a list of strings")
}
