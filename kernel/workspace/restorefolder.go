package workspace

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// openFolder is a folder on the way to the one that was entered last, open with O_PATH.
type openFolder struct {
	path string
	fd   int
}

// lookAgain looks into the folders whose modes kept the capture out, now that they may be made accessible.
func (r *restorer) lookAgain() error {
	r.unseenNow = r.now.unseen()
	if os.Geteuid() == 0 || len(r.unseenNow) == 0 {
		return nil
	}
	c := capturer{ctx: r.ctx, previous: r.want.Entries, left: MaxEntries, open: r.readable}
	looked := map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(r.unseenNow)) {
		if r.held[path] || coveredBy(r.held, path) {
			continue
		}
		folder, name, depth := ".", ".", 0
		if path != "." {
			folder, name = parentOf(path)
			depth = strings.Count(path, "/") + 1
		}
		err := r.attempt(path, func() error {
			parent, err := r.enter(folder)
			if err != nil {
				return err
			}
			entries, missing := len(c.out.Entries), len(c.out.Missing)
			if err := c.folder(parent, name, path, depth); err != nil {
				c.out.Entries, c.out.Missing = c.out.Entries[:entries], c.out.Missing[:missing]
				return err
			}
			looked[path] = true
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, e := range r.now.Entries {
		if !coveredBy(looked, e.Path) {
			c.out.Entries = append(c.out.Entries, e)
		}
	}
	for _, missing := range r.now.Missing {
		if !looked[missing.Path] && !coveredBy(looked, missing.Path) {
			c.out.Missing = append(c.out.Missing, missing)
		}
	}
	slices.SortFunc(c.out.Entries, func(a, b ManifestEntry) int { return strings.Compare(a.Path, b.Path) })
	c.sortMissing()
	r.now = c.out
	r.unseenNow = r.now.unseen()
	return nil
}

// readable opens a folder for reading, and makes it accessible first.
func (r *restorer) readable(at int, name, path string) (int, error) {
	fd, err := r.enterOne(at, name, path)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	return openBeneath(fd, ".", asFolder, 0)
}

// finishFolders puts back the modes and times of folders, those inside first. The workspace's own folder stays
// accessible: no manifest describes it.
func (r *restorer) finishFolders() error {
	r.leave()
	changed := map[string]*ManifestEntry{}
	for want, now := range pairs(r.want.Entries, r.now.Entries) {
		if want == nil || want.Kind != Directory || coveredBy(r.held, want.Path) || r.left[want.Path] {
			continue
		}
		_, unlocked := r.unlocked[want.Path]
		if unlocked || r.changed[want.Path] || now == nil || now.Kind != Directory || now.Mode != want.Mode ||
			now.ModTime != want.ModTime {
			changed[want.Path] = want
		}
	}
	// The folders on the way may be made accessible to get there, and then have to get their modes back.
	for _, path := range slices.Concat(slices.Collect(maps.Keys(changed)), slices.Collect(maps.Keys(r.unlocked))) {
		for ; path != "."; path, _ = parentOf(path) {
			if _, known := changed[path]; !known {
				changed[path] = nil
			}
		}
	}
	var first error
	for _, path := range slices.Backward(slices.Sorted(maps.Keys(changed))) {
		want := changed[path]
		if _, unlocked := r.unlocked[path]; want == nil && !unlocked {
			continue
		}
		if err := r.finishFolder(path, want); err != nil && !gone(err) {
			if want != nil {
				r.name(path, translate(err).Error())
			} else if first == nil {
				first = fmt.Errorf("set the mode of %q: %w", path, err)
			}
		}
	}
	return first
}

// finishFolder sets the mode and time of a folder; without a wish for it, it only gets the mode back that it had.
func (r *restorer) finishFolder(path string, want *ManifestEntry) error {
	fd, err := r.enter(path)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	mode := r.unlocked[path]
	if want != nil {
		mode = want.Mode & keptMode
		if err := setModTime(fd, want.ModTime); err != nil {
			return err
		}
	}
	if st.Mode&keptMode != mode&keptMode {
		return setMode(fd, mode)
	}
	return nil
}

// enter returns a descriptor of a folder, with O_PATH, which is valid until the next call.
func (r *restorer) enter(folder string) (int, error) {
	if len(r.stack) == 0 {
		fd, err := r.enterOne(r.root, ".", ".")
		if err != nil {
			return -1, err
		}
		r.stack = append(r.stack, openFolder{".", fd})
	}
	rest := folder
	if folder == "." {
		rest = ""
	}
	for len(r.stack) > 1 {
		top := r.stack[len(r.stack)-1]
		if folder == top.path {
			return top.fd, nil
		}
		if inner, ok := strings.CutPrefix(folder, top.path+"/"); ok {
			rest = inner
			break
		}
		unix.Close(top.fd)
		r.stack = r.stack[:len(r.stack)-1]
	}
	for rest != "" {
		top := r.stack[len(r.stack)-1]
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		path := name
		if top.path != "." {
			path = top.path + "/" + name
		}
		fd, err := r.enterOne(top.fd, name, path)
		if err != nil {
			return -1, err
		}
		r.stack = append(r.stack, openFolder{path, fd})
	}
	return r.stack[len(r.stack)-1].fd, nil
}

// enterOne opens a folder with O_PATH. Without root's rights, it also makes the folder accessible if its mode is in the
// way.
func (r *restorer) enterOne(at int, name, path string) (int, error) {
	fd := -1
	var err error
	if name == "." { // without search permission not even "." resolves
		fd, err = unix.FcntlInt(uintptr(at), unix.F_DUPFD_CLOEXEC, 0)
	} else {
		fd, err = openBeneath(at, name, asPath, 0)
	}
	if err != nil || os.Geteuid() == 0 {
		return fd, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&0o700 != 0o700 {
		if err = setMode(fd, st.Mode&keptMode|0o700); err == nil {
			if _, again := r.unlocked[path]; !again {
				r.unlocked[path] = st.Mode & keptMode
			}
		}
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// leave closes the folders that were entered.
func (r *restorer) leave() {
	for _, f := range r.stack {
		unix.Close(f.fd)
	}
	r.stack = nil
}
