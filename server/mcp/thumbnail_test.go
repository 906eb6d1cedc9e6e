package mcp

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/png"
	"math/rand/v2"
	"testing"
)

func encoded(t *testing.T, w, h int, noise bool) []byte {
	t.Helper()
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	if noise {
		random := rand.New(rand.NewPCG(1, 2))
		for i := range m.Pix {
			m.Pix[i] = byte(random.Uint32())
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestThumbnailFits(t *testing.T) {
	for _, c := range []struct {
		name       string
		w, h       int
		noise      bool
		media      string
		wantW      int // 0: any that fits
		sameSource bool
	}{
		{"small", 64, 48, false, "image/png", 64, true},
		{"wide", 3000, 1500, false, "image/png", 1024, false},
		{"line", 5000, 1, false, "image/png", 1024, false},
		{"noise", 1100, 900, true, "image/jpeg", 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			source := encoded(t, c.w, c.h, c.noise)
			data, media, err := Thumbnail(source)
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := image.DecodeConfig(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			if media != c.media || len(data) > thumbnailBytes || max(got.Width, got.Height) > thumbnailSide {
				t.Errorf("%s, %d bytes, %d × %d", media, len(data), got.Width, got.Height)
			}
			if c.wantW != 0 && got.Width != c.wantW || bytes.Equal(data, source) != c.sameSource {
				t.Errorf("width %d, unchanged %v", got.Width, bytes.Equal(data, source))
			}
		})
	}
}

func TestThumbnailRefusesHugeAndBroken(t *testing.T) {
	huge := encoded(t, 1, 1, false)
	binary.BigEndian.PutUint32(huge[16:], 60000) // IHDR: width, height, and its checksum
	binary.BigEndian.PutUint32(huge[20:], 60000)
	binary.BigEndian.PutUint32(huge[29:], crc32.ChecksumIEEE(huge[12:29]))
	if _, _, err := Thumbnail(huge); err == nil || !bytes.Contains([]byte(err.Error()), []byte("60000 × 60000")) {
		t.Errorf("huge: %v", err)
	}
	if _, _, err := Thumbnail([]byte("GIF89a")); err == nil {
		t.Error("bytes that are not an image were accepted")
	}
}
