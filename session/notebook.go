package session

import (
	"context"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"talaria/api"
	"talaria/store"
)

// notebook is an .ipynb of nbformat 4. Cells are kept as they came.
type notebook struct {
	Cells         []api.Raw `json:"cells"`
	Metadata      api.Raw   `json:"metadata"`
	NBFormat      int       `json:"nbformat"`
	NBFormatMinor int       `json:"nbformat_minor"`
}

type codeCell struct {
	CellType       string       `json:"cell_type"`
	ExecutionCount *int64       `json:"execution_count"`
	ID             string       `json:"id"`
	Metadata       cellMetadata `json:"metadata"`
	Outputs        []api.Output `json:"outputs"`
	Source         string       `json:"source"`
}

type cellMetadata struct {
	Talaria *cellOrigin `json:"talaria,omitzero"`
}

// cellOrigin says which execution a cell was.
type cellOrigin struct {
	ExecutionID string              `json:"execution_id"`
	Status      api.ExecutionStatus `json:"status"`
}

// Notebook is the session as an .ipynb: the imported cells, then each execution that came later and was not silent.
func (s *Session) Notebook(ctx context.Context) ([]byte, error) {
	imported, hides, err := s.m.cfg.Store.Notebook(ctx, s.n)
	if err != nil {
		return nil, s.readError(ctx, err)
	}
	nb := notebook{Cells: []api.Raw{}, NBFormat: 4, NBFormatMinor: 5}
	nb.Metadata, err = api.Marshal(map[string]any{
		"kernelspec":    map[string]string{"display_name": "Python 3", "language": "python", "name": "python3"},
		"language_info": map[string]string{"name": "python", "version": s.env.Version, "file_extension": ".py", "mimetype": "text/x-python"},
	})
	if err != nil {
		return nil, err
	}
	ids := map[string]bool{}
	if imported != nil {
		if err := jsonv2.Unmarshal(imported, &nb); err != nil {
			return nil, err
		}
		for i, cell := range nb.Cells {
			if nb.Cells[i], err = withCellID(cell, ids); err != nil {
				return nil, err
			}
		}
		nb.NBFormatMinor = max(nb.NBFormatMinor, 5)
	}
	rows, err := s.m.cfg.Store.NotebookExecutions(ctx, s.n, hides)
	if err != nil {
		return nil, s.readError(ctx, err)
	}
	for _, row := range rows {
		e, err := s.withOutputs(ctx, s.execution(row))
		if err != nil {
			return nil, err
		}
		cell, err := api.Marshal(codeCell{
			CellType: "code", ExecutionCount: e.ExecutionCount, ID: cellID(e.ID, ids), Outputs: e.Outputs, Source: e.Code,
			Metadata: cellMetadata{&cellOrigin{e.ID, e.Status}},
		})
		if err != nil {
			return nil, err
		}
		nb.Cells = append(nb.Cells, cell)
	}
	out, err := api.Marshal(nb)
	if err != nil {
		return nil, err
	}
	pretty := jsontext.Value(out)
	err = pretty.Indent(jsontext.WithIndent(" "))
	return append(pretty, '\n'), err
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
	mapped = mapped[:min(len(mapped), 64)]
	for mapped == "" || taken[mapped] {
		mapped = newID()
	}
	taken[mapped] = true
	return mapped
}

// withCellID gives an imported cell an id that is allowed.
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

// ImportNotebook makes the notebook what the session shows in place of its cells so far. It runs nothing.
func (s *Session) ImportNotebook(ctx context.Context, data []byte) error {
	var nb struct {
		notebook
		Other api.Raw `json:",unknown"`
	}
	if err := jsonv2.Unmarshal(data, &nb); err != nil {
		return invalid("this is no notebook: %v", err)
	}
	if nb.NBFormat != 4 {
		return invalid("nbformat is %d; notebooks of nbformat 4 can be imported (convert it with jupyter nbconvert)", nb.NBFormat)
	}
	for i, cell := range nb.Cells {
		if err := checkCell(cell); err != nil {
			return invalid("cells[%d]: %v", i, err)
		}
	}
	if nb.Metadata == nil {
		nb.Metadata = api.Raw("{}")
	}
	kept, err := api.Marshal(nb.notebook)
	if err != nil {
		return err
	}
	err = s.commit(ctx, change{also: func(tx *store.Tx) error { return tx.PutNotebook(s.n, kept) }})
	if err != nil {
		return err
	}
	return s.touch(ctx)
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
		return invalid("cell_type %.40q is none of code, markdown, raw", cell.CellType)
	}
	switch k := cell.Source.Kind(); k {
	case '"', '[':
		return nil
	}
	return invalid("source must be a string or a list of strings")
}
