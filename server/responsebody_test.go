package server_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"talaria/api"
)

// item is of any list: the shorter ones have no more than these.
type item struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func (i item) key() string { return i.ID + i.Name }

// pages reads a list page by page, and calls between after each.
func (h *harness) pages(path string, limit int, between func(api.Page[item])) (keys []string) {
	h.Helper()
	for cursor := ""; ; {
		r := h.do(request{method: "GET", path: fmt.Sprintf("%s?limit=%d%s", path, limit, cursor)})
		h.want(r, 200, "")
		page := decode[api.Page[item]](h.T, r.body)
		if len(page.Items) > limit {
			h.Fatalf("%s: %d items with limit %d", path, len(page.Items), limit)
		}
		for _, one := range page.Items {
			keys = append(keys, one.key())
		}
		if page.NextCursor == "" {
			return keys
		}
		between(page)
		cursor = "&cursor=" + page.NextCursor
	}
}

func TestEveryListHasPages(t *testing.T) {
	h := start(t)
	h.session("s")
	const one = "/v1/sessions/s"
	for i := range 5 {
		h.want(h.put(fmt.Sprintf("f%d", i), "x"), 201, "")
		h.want(h.do(request{method: "POST", path: one + "/shares"}), 201, "")
		h.want(h.do(request{method: "POST", path: one + "/tokens"}), 201, "")
		h.want(h.do(request{method: "POST", path: one + "/checkpoints", body: fmt.Sprintf(`{"level":"files","name":"c%d"}`, i)}), 201, "")
		h.terminal()
	}
	for _, path := range []string{one + "/files", one + "/shares", one + "/tokens", one + "/checkpoints", terminals, one + "/tools"} {
		r := h.do(request{method: "GET", path: path})
		all := decode[api.Page[item]](t, r.body)
		var want []string
		for _, i := range all.Items {
			want = append(want, i.key())
		}
		if len(want) < 5 || all.NextCursor != "" {
			t.Errorf("%s: without a limit there is %s", path, r.body)
		}
		for _, limit := range []int{1, 2, 5, 1000} {
			if got := h.pages(path, limit, func(api.Page[item]) {}); !slices.Equal(got, want) {
				t.Errorf("%s in pages of %d: %v, want %v", path, limit, got, want)
			}
		}
	}
	for _, path := range []string{"/v1/tokens", one + "/files", one + "/shares", one + "/tokens", one + "/checkpoints", terminals, one + "/tools"} {
		for _, query := range []string{"limit=0", "limit=1001", "limit=x", "limit=1&limit=2", "cursor=", "cursor=x", "cursor=0.YQ", "cursor=1.*"} {
			if r := h.do(request{method: "GET", path: path + "?" + query}); r.status != 400 || !strings.Contains(string(r.body), "invalid_request") {
				t.Errorf("%s?%s: %d %s", path, query, r.status, r.body)
			}
		}
		if r := h.do(request{method: "GET", path: path + "?limit=1"}); r.status != 200 || len(decode[api.Page[item]](t, r.body).Items) != 1 {
			t.Errorf("%s?limit=1: %d %s", path, r.status, r.body)
		}
	}
}

func TestPagesGoOnWhenItemsComeAndGo(t *testing.T) {
	h := start(t)
	h.session("s")
	const files, shares = "/v1/sessions/s/files", "/v1/sessions/s/shares"
	var made []string
	for i := range 6 {
		h.want(h.put(fmt.Sprintf("f%d", i), "x"), 201, "")
		r := h.do(request{method: "POST", path: shares})
		made = append(made, decode[api.Share](t, r.body).ID)
	}
	slices.Reverse(made)
	got := h.pages(files, 2, func(p api.Page[item]) {
		h.want(h.do(request{method: "DELETE", path: files + "/" + p.Items[1].Name}), 204, "")
		h.want(h.put("a"+p.Items[0].Name, "x"), 201, "")
	})
	if want := []string{"f0", "f1", "f2", "f3", "f4", "f5"}; !slices.Equal(got, want) {
		t.Errorf("files: %v", got)
	}
	got = h.pages(shares, 2, func(p api.Page[item]) {
		h.want(h.do(request{method: "DELETE", path: shares + "/" + p.Items[1].ID}), 204, "")
		h.want(h.do(request{method: "POST", path: shares}), 201, "")
	})
	if !slices.Equal(got, made) {
		t.Errorf("shares: %v, want %v", got, made)
	}
}
