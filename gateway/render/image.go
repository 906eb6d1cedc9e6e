package render

import (
	"bytes"
	"image"
	_ "image/jpeg" // photos are PNG or JPEG
	_ "image/png"

	"talaria/api"
)

// isPhoto reports whether a target shows an image of that type and size as a photo; head is its first bytes.
func isPhoto(t Target, mediaType string, size int64, head []byte) bool {
	limits := LimitsOf(t)
	if size <= 0 || size > limits.PhotoBytes {
		return false
	}
	if t != api.RenderTelegram && (mediaType == "image/gif" || mediaType == "image/webp") {
		return true
	}
	if mediaType != "image/png" && mediaType != "image/jpeg" {
		return false
	}
	config, format, err := image.DecodeConfig(bytes.NewReader(head))
	if err != nil || "image/"+format != mediaType || config.Width <= 0 || config.Height <= 0 {
		return false
	}
	long, short := max(config.Width, config.Height), min(config.Width, config.Height)
	return int64(long)+int64(short) <= limits.PhotoSides && int64(long) <= limits.PhotoRatio*int64(short)
}
