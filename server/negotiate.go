package server

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"talaria/api"
)

// format is a media type of an answer.
type format string

const (
	formatJSON   format = "application/json"
	formatSSE    format = "text/event-stream"
	formatNDJSON format = "application/x-ndjson"
)

// accepted is one range of an Accept header.
type accepted struct {
	kind, subtype string
	q             float64
}

// specificity is 2 for an exact match, 1 for type/*, 0 for */*, and -1 for none.
func (a accepted) specificity(f format) int {
	kind, subtype, _ := strings.Cut(string(f), "/")
	switch {
	case a.kind == kind && a.subtype == subtype:
		return 2
	case a.kind == kind && a.subtype == "*":
		return 1
	case a.kind == "*" && a.subtype == "*":
		return 0
	}
	return -1
}

// negotiate picks one of the offers for the Accept header: the highest q, then the most specific match, then the first
// in the offers. Without a header it picks the first offer.
func negotiate(c *call, offers ...format) (format, error) {
	c.Writer.Header().Add("Vary", "Accept")
	header := strings.Join(c.Request.Header.Values("Accept"), ",")
	if strings.TrimSpace(header) == "" {
		return offers[0], nil
	}
	ranges := parseAccept(header)
	var best format
	bestQ, bestExact := 0.0, -1
	for _, offer := range offers {
		q, exact := 0.0, -1
		for _, r := range ranges {
			if s := r.specificity(offer); s > exact {
				q, exact = r.q, s
			}
		}
		if q > bestQ || q == bestQ && q > 0 && exact > bestExact {
			best, bestQ, bestExact = offer, q, exact
		}
	}
	if best == "" {
		names := make([]string, len(offers))
		for i, offer := range offers {
			names[i] = string(offer)
		}
		return "", api.Errorf(api.CodeNotAcceptable, "this resource is available as %s", strings.Join(names, ", "))
	}
	return best, nil
}

// parseAccept skips malformed ranges. streams reports whether a client asks for events as they come.
func streams(r *http.Request) bool {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	return strings.Contains(accept, string(formatSSE)) || strings.Contains(accept, string(formatNDJSON))
}

func parseAccept(header string) []accepted {
	var list []accepted
	for part := range strings.SplitSeq(header, ",") {
		name, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		a := accepted{q: 1}
		if name == "*" {
			name = "*/*"
		}
		a.kind, a.subtype, _ = strings.Cut(name, "/")
		if text, ok := params["q"]; ok {
			if q, err := strconv.ParseFloat(text, 64); err == nil && q >= 0 && q <= 1 {
				a.q = q
			}
		}
		list = append(list, a)
	}
	return list
}
