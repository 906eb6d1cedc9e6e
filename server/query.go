package server

import (
	"math"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"talaria/api"
)

// maxWait bounds wait_s; a longer wait is cut to it.
const maxWait = 365 * 24 * time.Hour

var decimal = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

func parseQuery(raw string) (url.Values, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, api.Errorf(api.CodeInvalidRequest, "the query string is malformed")
	}
	return values, nil
}

// value returns a query value; giving one twice is an error.
func (c *call) value(key string) (string, bool, error) {
	values, ok := c.query[key]
	if len(values) > 1 {
		return "", false, badQuery(key, "given twice")
	}
	if !ok {
		return "", false, nil
	}
	return values[0], true, nil
}

func badQuery(key, why string) *api.Error {
	return api.Errorf(api.CodeInvalidRequest, "query parameter %q is %s", key, why)
}

// seq returns a position in the log.
func (c *call) seq(key string) (seq int64, given bool, err error) {
	text, given, err := c.value(key)
	if err != nil || !given {
		return 0, false, err
	}
	seq, ok := parseSeq(text)
	if !ok {
		return 0, false, badQuery(key, "not a whole number of 0 or more")
	}
	return seq, true, nil
}

func parseSeq(text string) (int64, bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	seq, err := strconv.ParseInt(text, 10, 64)
	return seq, err == nil
}

func (c *call) flag(key string, byDefault bool) (bool, error) {
	text, given, err := c.value(key)
	if err != nil || !given {
		return byDefault, err
	}
	switch text {
	case "1", "true":
		return true, nil
	case "0", "false":
		return false, nil
	}
	return false, badQuery(key, "neither true nor false")
}

// seconds returns a duration in seconds. given is false if there is none.
func (c *call) seconds(key string) (d time.Duration, given bool, err error) {
	text, given, err := c.value(key)
	if err != nil || !given {
		return 0, false, err
	}
	if !decimal.MatchString(text) {
		return 0, false, badQuery(key, "not a number of 0 or more")
	}
	s, err := strconv.ParseFloat(text, 64)
	if err != nil && !math.IsInf(s, 1) {
		return 0, false, badQuery(key, "not a number of 0 or more")
	}
	if s >= maxWait.Seconds() {
		return maxWait, true, nil
	}
	return time.Duration(s * float64(time.Second)), true, nil
}

func (c *call) page() (api.PageQuery, error) {
	var q api.PageQuery
	text, given, err := c.value("limit")
	if err != nil {
		return q, err
	}
	if given {
		n, ok := parseSeq(text)
		if !ok || n < 1 || n > api.MaxPage {
			return q, badQuery("limit", "not a whole number from 1 to 1000")
		}
		q.Limit = int(n)
	}
	cursor, given, err := c.value("cursor")
	if err != nil {
		return q, err
	}
	if given && cursor == "" {
		return q, badQuery("cursor", "empty")
	}
	q.Cursor = cursor
	return q, nil
}
