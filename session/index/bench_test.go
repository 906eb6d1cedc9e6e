package index_test

import (
	"io"
	"net/http"
	"testing"

	"talaria/session/index"
	"talaria/session/index/indextest"
)

// BenchmarkFile is a file of 64 MiB as an installer gets it: from the cache, and on its way through it.
func BenchmarkFile(b *testing.B) {
	from := indextest.New(b)
	from.Add("big", indextest.File{Name: "big-1.tar.gz", Content: make([]byte, 64<<20)})
	for name, again := range map[string]bool{"cached": true, "fresh": false} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(64 << 20)
			g := newGateway(b, from)
			at := g.file("big", ".tar.gz").URL
			for b.Loop() {
				if !again {
					b.StopTimer()
					g = newGateway(b, from)
					at = g.file("big", ".tar.gz").URL
					b.StartTimer()
				}
				resp, err := g.client.Get("http://" + index.Name + at)
				if err != nil {
					b.Fatal(err)
				}
				n, err := io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if err != nil || n != 64<<20 || resp.StatusCode != http.StatusOK {
					b.Fatal(n, resp.Status, err)
				}
			}
		})
	}
}
