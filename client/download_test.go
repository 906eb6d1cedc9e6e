package client_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"talaria/client"
)

// TestDownloadContinuesAfterALostConnection has a server that drops each connection after a piece of the file.
func TestDownloadContinuesAfterALostConnection(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 1000)
	for _, changes := range []bool{false, true} {
		requests := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests++
			w.Header().Set("ETag", `"1"`)
			if changes && requests == 2 {
				w.Header().Set("ETag", `"2"`)
			}
			http.ServeContent(&cutting{ResponseWriter: w, left: 5000}, r, "", time.Time{}, bytes.NewReader(content))
		}))
		defer server.Close()
		d, err := client.New(server.URL, "token").GetFile(t.Context(), "s", "big")
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(d)
		_ = d.Close()
		if changes {
			if !errors.Is(err, client.ErrFileChanged) {
				t.Errorf("a file that changes: %v", err)
			}
		} else if err != nil || !bytes.Equal(got, content) || requests != 4 {
			t.Errorf("%d bytes of %d in %d requests: %v", len(got), len(content), requests, err)
		}
	}
}

// cutting drops the connection after some bytes of the body.
type cutting struct {
	http.ResponseWriter
	left int
}

func (c *cutting) Write(p []byte) (int, error) {
	n := min(len(p), c.left)
	c.left -= n
	if _, err := c.ResponseWriter.Write(p[:n]); err != nil || n < len(p) {
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, nil
}
