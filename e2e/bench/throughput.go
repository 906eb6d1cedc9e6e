package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"
)

// printedLines measures when the first and the last of many lines are seen, and how many never are.
func printedLines(n int) func(context.Context, *trial) error {
	code := fmt.Sprintf("for i in range(%d):\n    print(i)", n)
	final := fmt.Sprintf("%d\n", n-1)
	return func(ctx context.Context, t *trial) error {
		return inOneSession(ctx, t, attachment{}, func(ctx context.Context, _ session, c conn) ([]float64, error) {
			var first, last time.Duration
			seen := 0
			begin := time.Now()
			err := cell(ctx, c, code, func(o output) {
				if o.kind != kindText {
					return
				}
				at := time.Since(begin)
				if seen == 0 {
					first = at
				}
				seen += strings.Count(o.text, "\n")
				if strings.HasSuffix(o.text, final) {
					last = at
				}
			})
			if err == nil && last == 0 {
				last = time.Since(begin)
			}
			return []float64{ms(first), ms(last), float64(n - seen)}, err
		})
	}
}

// bulk measures how much of a flood of text is kept, how fast, and how far the server grows at its peak. Each sample
// has a fresh server, since one that has grown once would hide it.
func bulk(f flavour, pieces int) func(context.Context, *trial) error {
	code := "import sys\npiece = 'x' * 999_999 + '\\n'\n" +
		fmt.Sprintf("for _ in range(%d):\n    sys.stdout.write(piece)", pieces)
	return func(ctx context.Context, t *trial) error {
		return t.repeat(ctx, func(ctx context.Context) (values []float64, err error) {
			s, err := t.renew(ctx, f)
			if err != nil {
				return nil, err
			}
			err = within(ctx, s, attachment{}, func(_ session, c conn) error {
				if err := cell(ctx, c, "print('x' * 1000)", ignore); err != nil {
					return err
				}
				peak, err := watchPeak(s.own())
				if err != nil {
					return err
				}
				begin := time.Now()
				kept, whole, err := flood(ctx, c, code)
				if err != nil {
					return err
				}
				took := time.Since(begin)
				growth, err := peak.growth()
				if err != nil {
					return err
				}
				if whole.open != nil {
					if kept, err = size(ctx, whole); err != nil {
						return err
					}
				}
				values = []float64{float64(kept) / 1e6, float64(kept) / 1e6 / took.Seconds(), float64(growth) / mib}
				return nil
			})
			return values, err
		})
	}
}

// flood runs a cell that prints much: how many bytes came, and where the whole is kept if they were not all.
func flood(ctx context.Context, c conn, code string) (bytes int64, whole output, err error) {
	err = cell(ctx, c, code, func(o output) {
		switch o.kind {
		case kindText:
			bytes += int64(len(o.text))
		case kindWhole:
			whole = o
		}
	})
	return bytes, whole, err
}

// size reads a long output where it is kept.
func size(ctx context.Context, whole output) (int64, error) {
	body, err := whole.open(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the whole output: %w", err)
	}
	defer body.Close()
	return drain(body)
}

// drain reads to the end in pieces of a size that an ordinary client takes, and counts.
func drain(r io.Reader) (n int64, err error) {
	for buffer := make([]byte, 256<<10); ; {
		read, err := r.Read(buffer)
		n += int64(read)
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// files measures an upload and a download of that many bytes.
func files(bytesEach int) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		content := make([]byte, bytesEach)
		random := rand.NewChaCha8([32]byte{})
		_, _ = random.Read(content) // never fails
		return inOneSession(ctx, t, attachment{}, func(ctx context.Context, ses session, _ conn) ([]float64, error) {
			begin := time.Now()
			if err := ses.upload(ctx, "bench.bin", content); err != nil {
				return nil, fmt.Errorf("upload: %w", err)
			}
			up := time.Since(begin)
			begin = time.Now()
			body, err := ses.download(ctx, "bench.bin")
			if err != nil {
				return nil, fmt.Errorf("download: %w", err)
			}
			defer body.Close()
			n, err := drain(body)
			down := time.Since(begin)
			if err == nil && n != int64(bytesEach) {
				err = fmt.Errorf("%d of %d bytes came back", n, bytesEach)
			}
			if err != nil {
				return nil, fmt.Errorf("download: %w", err)
			}
			return []float64{float64(n) / 1e6 / up.Seconds(), float64(n) / 1e6 / down.Seconds()}, same(ctx, ses, content)
		})
	}
}

// same checks that a file came back as it went.
func same(ctx context.Context, ses session, content []byte) error {
	body, err := ses.download(ctx, "bench.bin")
	if err != nil {
		return fmt.Errorf("download: %w", err)
	}
	defer body.Close()
	got, err := io.ReadAll(body)
	if err == nil && !bytes.Equal(got, content) {
		err = fmt.Errorf("a file came back changed")
	}
	return err
}
