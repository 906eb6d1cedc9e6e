package server_test

import (
	"fmt"
	"strings"
	"testing"

	"talaria/api"
)

const documentPath = "/v1/sessions/s/document"

func (h *harness) putDocument(match, body string) response {
	h.Helper()
	header := map[string]string{}
	if match != "" {
		header["If-Match"] = match
	}
	return h.do(request{method: "PUT", path: documentPath, body: body, header: header})
}

func TestDocumentsHaveRevisions(t *testing.T) {
	h := start(t)
	h.session("s")
	first := h.do(request{method: "GET", path: documentPath})
	h.want(first, 200, "")
	if doc := decode[api.Document](t, first.body); doc.Revision != 0 || doc.Cells == nil || first.header.Get("ETag") != `"0"` {
		t.Errorf("a document that was never saved is %s, ETag %s", first.body, first.header.Get("ETag"))
	}
	const one = `{"title":"T","cells":[{"id":"a","cell_type":"code","source":"1"},{"id":"b","cell_type":"markdown","source":"# é"}]}`
	saved := h.putDocument(`"0"`, one)
	h.want(saved, 200, "")
	if doc := decode[api.Document](t, saved.body); doc.Revision != 1 || saved.header.Get("ETag") != `"1"` || doc.Through == 0 {
		t.Errorf("saved: %s, ETag %s", saved.body, saved.header.Get("ETag"))
	}
	again := h.do(request{method: "GET", path: documentPath})
	if doc := decode[api.Document](t, again.body); len(doc.Cells) != 2 || doc.Cells[1].Source != "# é" || doc.Title != "T" {
		t.Errorf("read again: %s", again.body)
	}
	h.want(h.putDocument("", string(again.body)), 200, "") // unchanged: the revision is in the body

	for _, match := range []string{`"0"`, `"1"`, `"9"`, `"x"`, ""} {
		refused := h.putDocument(match, one)
		h.want(refused, 412, api.CodeRevisionConflict)
		now := decode[api.Error](t, refused.body).Document
		if now == nil || now.Revision != 2 || len(now.Cells) != 2 || refused.header.Get("ETag") != `"2"` {
			t.Errorf("If-Match %s: %s", match, refused.body)
		}
	}
	h.want(h.putDocument("*", `{"cells":[]}`), 200, "")
	h.want(h.do(request{method: "GET", path: documentPath, token: secondToken}), 404, api.CodeSessionNotFound)

	log := h.do(request{method: "GET", path: "/v1/sessions/s/events?follow=false", header: map[string]string{"Accept": "application/x-ndjson"}})
	if got := strings.Count(string(log.body), `"type":"document_changed"`); got != 3 {
		t.Errorf("the log tells of %d revisions, want 3:\n%s", got, log.body)
	}
}

func TestDocumentsAreChecked(t *testing.T) {
	h := start(t)
	h.session("s")
	for body, field := range map[string]string{
		`{"cells":[{"id":"a","cell_type":"code","source":"","x":1}]}`:                                    "cells.0.x",
		`{"cells":[{"id":"a","cell_type":"shell","source":""}]}`:                                         "cell_type",
		`{"cells":[{"id":"a","cell_type":"code","source":""},{"id":"a","cell_type":"raw","source":""}]}`: "twice",
		`{"cells":[{"id":"../a","cell_type":"code","source":""}]}`:                                       "must match",
		`{"cells":[],"through":99999}`:                                                                   "through",
		`{"cells":[],"through":-1}`:                                                                      "through",
		`{"cells":[],"title":"` + strings.Repeat("x", 2000) + `"}`:                                       "title",
		`{"cells":[` + strings.Repeat(`{"id":"a","cell_type":"code","source":""},`, 10_000) + `{"id":"b","cell_type":"code","source":""}]}`: "10001 cells",
	} {
		r := h.putDocument(`"0"`, body)
		h.want(r, 400, api.CodeInvalidRequest)
		if detail := decode[api.Error](t, r.body).Detail; !strings.Contains(detail, field) {
			t.Errorf("%.100s: %q does not name %s", body, detail, field)
		}
	}
}

func TestANotebookIsTheDocument(t *testing.T) {
	h := start(t)
	h.session("s")
	empty := h.do(request{method: "GET", path: "/v1/sessions/s/view"})
	if view := decode[api.View](t, empty.body); view.Executions == nil || len(view.Executions) > 0 || view.Document.Cells == nil {
		t.Errorf("the view of a new session is %s", empty.body)
	}
	run := func(id string) {
		t.Helper()
		h.want(h.do(request{method: "POST", path: "/v1/sessions/s/executions", body: `{"id":"` + id + `","code":"print('hi')"}`}), 200, "")
	}
	run("a.r00000001")
	run("gone")
	h.want(h.putDocument(`"0"`, `{"cells":[{"id":"t","cell_type":"markdown","source":"text"},{"id":"a","cell_type":"code","source":"edited"},`+
		`{"id":"new","cell_type":"code","source":"never run"}]}`), 200, "")
	run("a.r00000002")
	run("late")

	type file struct {
		Cells []struct {
			ID             string
			Source         any
			CellType       string `json:"cell_type"`
			ExecutionCount *int64 `json:"execution_count"`
			Outputs        []any
		}
	}
	exported := func() file {
		t.Helper()
		r := h.do(request{method: "GET", path: "/v1/sessions/s/notebook"})
		h.want(r, 200, "")
		return decode[file](t, r.body)
	}
	view := decode[api.View](t, h.do(request{method: "GET", path: "/v1/sessions/s/view"}).body)
	var runs []string
	for _, e := range view.Executions {
		runs = append(runs, fmt.Sprint(e.ID, " ", e.Status, " ", len(e.Outputs)))
	}
	info := decode[api.Session](t, h.do(request{method: "GET", path: "/v1/sessions/s"}).body)
	if got := strings.Join(runs, ", "); got != "a.r00000002 ok 1, late ok 1" || view.Document.Revision != 1 || len(view.Document.Cells) != 3 ||
		view.Seq != info.LastSeq || view.LogID != info.LogID {
		t.Errorf("the view has %s, and is %+v", got, view)
	}

	nb := exported()
	var shape []string
	for _, cell := range nb.Cells {
		shape = append(shape, fmt.Sprint(cell.ID, ":", cell.Source))
	}
	if got := strings.Join(shape, " "); got != "t:text a:edited new:never run late:print('hi')" {
		t.Errorf("the notebook has %s", got)
	}
	if a := nb.Cells[1]; a.ExecutionCount == nil || *a.ExecutionCount != 3 || len(a.Outputs) == 0 {
		t.Errorf("cell a is %+v", a)
	}

	const in = `{"nbformat":4,"nbformat_minor":4,"metadata":{},"cells":[{"cell_type":"code","metadata":{"tags":["x"]},` +
		`"source":["1\n","2"],"execution_count":7,"outputs":[{"output_type":"stream","name":"stdout","text":"old"}]}]}`
	h.want(h.do(request{method: "POST", path: "/v1/sessions/s/notebook", body: in,
		header: map[string]string{"Content-Type": "application/x-ipynb+json"}}), 200, "")
	doc := decode[api.Document](t, h.do(request{method: "GET", path: documentPath}).body)
	if doc.Revision != 2 || !doc.Imported || len(doc.Cells) != 1 || doc.Cells[0].Source != "1\n2" || doc.Cells[0].ID == "" {
		t.Fatalf("after an import the document is %+v", doc)
	}
	if nb := exported(); len(nb.Cells) != 1 || nb.Cells[0].ID != doc.Cells[0].ID || len(nb.Cells[0].Outputs) != 1 {
		t.Errorf("exported again: %+v", nb)
	}
}

func TestARunKeepsTheMetadataOfAnImportedCell(t *testing.T) {
	h := start(t)
	h.session("s")
	const in = `{"nbformat":4,"nbformat_minor":5,"metadata":{},"cells":[` +
		`{"cell_type":"code","id":"a","metadata":{"tags":["parameters"],"nbgrader":{"grade":true},"talaria":{"execution_id":"old"}},` +
		`"source":"1","execution_count":7,"outputs":[{"output_type":"stream","name":"stdout","text":"old"}]},` +
		`{"cell_type":"code","id":"b","metadata":null,"source":["2"],"execution_count":null,"outputs":[]}]}`
	h.want(h.do(request{method: "POST", path: "/v1/sessions/s/notebook", body: in,
		header: map[string]string{"Content-Type": "application/x-ipynb+json"}}), 200, "")
	for _, id := range []string{"a", "b", "c"} {
		h.want(h.do(request{method: "POST", path: "/v1/sessions/s/executions", body: `{"id":"` + id + `.r00000001","code":"print('hi')"}`}), 200, "")
	}
	type cell struct {
		ID             string
		Source         any
		Metadata       map[string]any
		ExecutionCount *int64 `json:"execution_count"`
		Outputs        []struct{ Text any }
	}
	exported := h.do(request{method: "GET", path: "/v1/sessions/s/notebook"})
	cells := decode[struct{ Cells []cell }](t, exported.body).Cells
	if len(cells) != 3 {
		t.Fatalf("exported: %s", exported.body)
	}
	for i, want := range []string{"map[nbgrader:map[grade:true] tags:[parameters] talaria:map[execution_id:a.r00000001 status:ok]]",
		"map[talaria:map[execution_id:b.r00000001 status:ok]]", "map[talaria:map[execution_id:c.r00000001 status:ok]]"} {
		c := cells[i]
		if got := fmt.Sprint(c.Metadata); got != want {
			t.Errorf("cell %s has the metadata %s, want %s", c.ID, got, want)
		}
		if len(c.Outputs) == 0 || c.Outputs[0].Text == "old" || c.ExecutionCount == nil || *c.ExecutionCount != int64(i+1) {
			t.Errorf("cell %s was run, but has %+v", c.ID, c)
		}
	}
	if got := fmt.Sprintf("%v %v %v", cells[0].Source, cells[1].Source, cells[2].Source); got != "1 [2] print('hi')" {
		t.Errorf("the sources are %s", got)
	}
}
