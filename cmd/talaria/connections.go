package main

import (
	"fmt"
	"syscall"
)

// The values of cookie-secure. A proxy that does TLS talks plain HTTP to the server, which cannot tell.
const (
	cookieAuto   = "auto" // where the server itself does TLS
	cookieAlways = "always"
)

// maxWaiting is how many connections may wait that nobody needs.
const maxWaiting = 1000

// connections are how many connections may wait without an authenticated request, and how many requests one owner may
// have under way: few enough that the process keeps descriptors for everything else.
func (c config) connections() (waiting, requests int, err error) {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return 0, 0, fmt.Errorf("read RLIMIT_NOFILE: %w", err)
	}
	most := int(min(files.Cur, 1<<20))
	return max(min(most/8, maxWaiting), 1), max(min(c.OwnerRequests, most/4), 1), nil
}
