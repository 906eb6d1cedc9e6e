package host

import "hash/maphash"

// maxRecentIDs bounds how many executions a kernel remembers. A server repeats only the one that it handed over last,
// and output of an older execution counts as that of the running one.
const maxRecentIDs = 1 << 16

// recentIDs is a set of the ids that were added last, stored as hashes. Its zero value is empty. The caller
// synchronizes.
type recentIDs struct {
	known map[uint64]struct{}
	order []uint64 // a ring once it is full
	next  int      // index of the next one
}

var idSeed = maphash.MakeSeed()

func (r *recentIDs) add(id string) {
	hash := maphash.String(idSeed, id)
	if r.known == nil {
		r.known = make(map[uint64]struct{})
	}
	if len(r.order) < maxRecentIDs {
		r.order = append(r.order, hash)
	} else {
		delete(r.known, r.order[r.next])
		r.order[r.next] = hash
	}
	r.next = (r.next + 1) % maxRecentIDs
	r.known[hash] = struct{}{}
}

// remove removes the id that was added last.
func (r *recentIDs) remove(id string) {
	delete(r.known, maphash.String(idSeed, id))
	r.next = (r.next + maxRecentIDs - 1) % maxRecentIDs
	if len(r.order) < maxRecentIDs {
		r.order = r.order[:r.next]
	}
}

func (r *recentIDs) has(id string) bool {
	_, ok := r.known[maphash.String(idSeed, id)]
	return ok
}
