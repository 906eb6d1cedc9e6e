package render

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"talaria/api"
)

// images are the types of images that displays send as base64, the preferred one first.
var images = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// extensions are those of the files that a display becomes.
var extensions = map[string]string{
	"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "image/svg+xml": ".svg",
	"application/pdf": ".pdf", "audio/wav": ".wav", "audio/x-wav": ".wav", "audio/mpeg": ".mp3", "audio/ogg": ".ogg", "video/mp4": ".mp4",
	"video/webm": ".webm", "video/ogg": ".ogv", "text/html": ".html", "text/csv": ".csv", "text/plain": ".txt",
}

// media is one value of a display as a file.
type media struct {
	mediaType string
	content   []byte
}

// pictureOf returns the image of a display.
func pictureOf(data api.MIMEBundle) (media, bool) {
	for _, mediaType := range images {
		if content, ok := binary(data[mediaType]); ok {
			return media{mediaType, content}, true
		}
	}
	if svg := stringOf(data["image/svg+xml"]); svg != "" {
		return media{"image/svg+xml", []byte(svg)}, true
	}
	return media{}, false
}

// recordingOf returns the sound, film or document of a display.
func recordingOf(data api.MIMEBundle) (media, bool) {
	for _, mediaType := range slices.Sorted(maps.Keys(data)) {
		if !strings.HasPrefix(mediaType, "audio/") && !strings.HasPrefix(mediaType, "video/") && mediaType != "application/pdf" {
			continue
		}
		if content, ok := binary(data[mediaType]); ok {
			return media{mediaType, content}, true
		}
	}
	return media{}, false
}

// binary decodes a value in base64.
func binary(raw api.Raw) ([]byte, bool) {
	text := stringOf(raw)
	if text == "" {
		return nil, false
	}
	content, err := base64.StdEncoding.DecodeString(text)
	return content, err == nil && len(content) > 0
}

// stringOf returns a value that is a string, or, as in notebook files, a list of its lines.
func stringOf(raw api.Raw) string {
	if len(raw) == 0 {
		return ""
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var lines []string
	if json.Unmarshal(raw, &lines) == nil {
		return strings.Join(lines, "")
	}
	return ""
}

func plainText(data api.MIMEBundle) string { return stringOf(data["text/plain"]) }

// isPlaceholder reports whether the text of a display only names its class, like "<IPython.core.display.HTML object>".
func isPlaceholder(plain string) bool {
	plain = strings.TrimSpace(plain)
	return plain == "" || plain[0] == '<' && plain[len(plain)-1] == '>' && !strings.Contains(plain, "\n")
}

// sourceOf returns the richest form of a display that is text itself, or its JSON.
func sourceOf(data api.MIMEBundle) string {
	for _, mediaType := range []string{"text/markdown", "text/latex"} {
		if text := stringOf(data[mediaType]); text != "" {
			return text
		}
	}
	return string(data["application/json"])
}
