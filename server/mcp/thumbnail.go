package mcp

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
)

const (
	thumbnailSide   = 1024      // pixels, the longer side
	thumbnailBytes  = 200 << 10 // what clients show to a model
	thumbnailPixels = 32 << 20  // of the source: a small file can declare a huge image
)

// Thumbnail returns a picture of at most 1024 pixels a side and 200 KiB, with its media type. A source that fits is
// returned unchanged. It fails for what is not PNG or JPEG, and for more than 32 Mi pixels.
func Thumbnail(source []byte) (data []byte, media string, err error) {
	cfg, format, err := image.DecodeConfig(bytes.NewReader(source))
	if err != nil {
		return nil, "", fmt.Errorf("read the image: %w", err)
	}
	if int64(cfg.Width)*int64(cfg.Height) > thumbnailPixels {
		return nil, "", fmt.Errorf("the image has %d × %d pixels; the limit is %d pixels", cfg.Width, cfg.Height, thumbnailPixels)
	}
	if max(cfg.Width, cfg.Height) <= thumbnailSide && len(source) <= thumbnailBytes {
		return source, "image/" + format, nil
	}
	decoded, _, err := image.Decode(bytes.NewReader(source))
	if err != nil {
		return nil, "", fmt.Errorf("read the image: %w", err)
	}
	for side := thumbnailSide; side > 0; side /= 2 {
		small := shrink(decoded, side)
		var b bytes.Buffer
		if err := png.Encode(&b, small); err != nil {
			return nil, "", err
		}
		if b.Len() <= thumbnailBytes {
			return b.Bytes(), "image/png", nil
		}
		b.Reset()
		if err := jpeg.Encode(&b, small, &jpeg.Options{Quality: 80}); err != nil {
			return nil, "", err
		}
		if b.Len() <= thumbnailBytes {
			return b.Bytes(), "image/jpeg", nil
		}
	}
	return nil, "", fmt.Errorf("the image does not fit in %d bytes", thumbnailBytes)
}

// shrink averages the source over boxes, on white, so that neither side exceeds the limit.
func shrink(source image.Image, side int) *image.RGBA {
	r := source.Bounds()
	longer := max(r.Dx(), r.Dy(), side)
	w, h := max(1, r.Dx()*side/longer), max(1, r.Dy()*side/longer)
	small := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			box := image.Rect(x*r.Dx()/w, y*r.Dy()/h, (x+1)*r.Dx()/w, (y+1)*r.Dy()/h).Add(r.Min)
			small.SetRGBA(x, y, average(source, box))
		}
	}
	return small
}

func average(source image.Image, box image.Rectangle) color.RGBA {
	var red, green, blue, n uint64
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			r, g, b, a := source.At(x, y).RGBA()
			white := 0xffff - a
			red, green, blue, n = red+uint64(r+white), green+uint64(g+white), blue+uint64(b+white), n+1
		}
	}
	return color.RGBA{uint8(red / n >> 8), uint8(green / n >> 8), uint8(blue / n >> 8), 0xff}
}
