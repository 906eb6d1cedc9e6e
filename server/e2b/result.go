package e2b

import (
	"strings"

	"talaria/api"
)

// formats are the names of media types in E2B's results. Others are in "extra", by their type.
var formats = map[string]string{
	"text/plain": "text", "text/html": "html", "text/markdown": "markdown", "image/svg+xml": "svg", "image/png": "png",
	"image/jpeg": "jpeg", "application/pdf": "pdf", "text/latex": "latex", "application/json": "json",
	"application/javascript": "javascript", "application/vnd.e2b.data+json": "data",
}

// result is a value that a cell shows; main is the one of its last expression.
func result(data api.MIMEBundle, main bool) object {
	r := object{"type": "result", "is_main_result": main}
	extra := map[string]api.Raw{}
	for media, value := range data {
		name, known := formats[media]
		switch {
		case name == "text":
			r[name] = unquoted(value)
		case known:
			r[name] = value
		default:
			extra[media] = value
		}
	}
	if drawn, ok := data[chartMedia]; ok {
		if c, ok := chart(drawn); ok {
			r["chart"] = c
		}
	}
	if len(extra) > 0 {
		r["extra"] = extra
	}
	return r
}

// unquoted returns a text without one pair of quotes around it, as E2B's server does: the result of "a" is a.
func unquoted(value api.Raw) any {
	var text string
	if err := api.UnmarshalLoose(value, &text); err != nil {
		return value
	}
	for _, quote := range []string{"'", `"`} {
		if len(text) >= 2 && strings.HasPrefix(text, quote) && strings.HasSuffix(text, quote) {
			return text[1 : len(text)-1]
		}
	}
	return text
}
