package jupyter

import (
	"slices"
	"sync"

	"talaria/api"
	"talaria/api/kernelwire"
)

const (
	maxClientID = 256
	maxEnded    = 64  // requests that are kept for connections that are behind
	maxAsked    = 8   // open questions to one client how far it has read
	maxPlaces   = 64  // of one kernel
	maxLeft     = 256 // kernels of one owner that are kept without a connection

	maxLeftRequests = 4096 // that those kernels keep
)

// kernels holds what connections to the same kernel share. The zero value is ready to use and safe for concurrent use.
type kernels struct {
	places *Places // where clients have stopped, for the next server; nil: nowhere

	mu   sync.Mutex // guards all below; taken before that of a kernelState
	by   map[kernelKey]*kernelState
	left []*kernelState // without connections, the longest first
}

// kernelKey names a kernel among those of all owners.
type kernelKey struct{ owner, session string }

// kernelState is what connections to one kernel share. It is kept while there are connections, and for some time after them, since
// a client that has gone may come back.
type kernelState struct {
	all   *kernels
	key   kernelKey
	id    string
	logID string

	mu      sync.Mutex // guards all below
	open    map[*channels]bool
	parents map[string]parent // of the executions that clients asked for, by id
	ended   []string          // of parents: those that have ended, the oldest first
	places  map[string]*place // up to where clients have the log, by their session_id
}

// place is the position in the log up to which a client has read. What was written to it may still be lost: a connection whose
// network has gone accepts it for a while. Only the client's newest connection moves the place.
type place struct {
	seq   int64
	sent  int64     // up to where the owner was sent the log
	asked []int64   // positions that the owner was asked to confirm and has not, in order
	owner *channels // nil: it has gone
	mark  Mark      // of the place in the file
}

// parent is the request for an execution.
type parent struct {
	head   api.Raw
	client string // session_id of the connection, or the session of the request
	socket *channels
}

func (s *kernels) connections(owner, session string) int {
	s.mu.Lock()
	k := s.by[kernelKey{owner, session}]
	s.mu.Unlock()
	if k == nil {
		return 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.open)
}

// enter adds a connection, and returns the position in the log from which it follows: up to where the same client has read by
// what its last connection confirmed, or else the end. An open connection of the same client ends.
func (s *kernels) enter(owner string, info api.Session, c *channels) (k *kernelState, after int64) {
	if c.id == "" {
		return s.add(owner, info, c, place{})
	}
	var stored place
	stored.mark, stored.seq = s.places.find(owner, info.ID, info.LogID, c.id)
	k, after = s.add(owner, info, c, stored)
	stored.mark.set(after)
	return k, after
}

// add is enter with what the file says of the client's place.
func (s *kernels) add(owner string, info api.Session, c *channels, stored place) (k *kernelState, after int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by = map[kernelKey]*kernelState{}
	}
	key := kernelKey{owner, info.ID}
	k = s.by[key]
	if k == nil || k.logID != info.LogID { // another session had this id before
		k = &kernelState{all: s, key: key, id: kernelwire.KernelID(info.ID), logID: info.LogID, open: map[*channels]bool{}, parents: map[string]parent{}, places: map[string]*place{}}
		s.by[key] = k
	}
	s.left = slices.DeleteFunc(s.left, func(other *kernelState) bool { return other.key == key })
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open[c] = true
	if c.id == "" {
		return k, info.LastSeq
	}
	p := k.places[c.id]
	if p == nil {
		k.makeRoom()
		p = &stored
		k.places[c.id] = p
	} else if p.owner != nil {
		p.owner.cancel(errReplaced)
	}
	if p.seq < info.FirstSeq-1 || p.seq > info.LastSeq {
		p.seq = info.LastSeq
	}
	p.owner, p.sent, p.asked = c, p.seq, nil
	return k, p.seq
}

// makeRoom forgets a client that has gone where there are too many. The caller holds kernelState.mu.
func (k *kernelState) makeRoom() {
	if len(k.places) < maxPlaces {
		return
	}
	for id, p := range k.places {
		if p.owner == nil {
			delete(k.places, id)
			return
		}
	}
}

// own returns the client's place if the connection is its newest one, or nil. The caller holds mu.
func (k *kernelState) own(c *channels) *place {
	if p := k.places[c.id]; p != nil && p.owner == c {
		return p
	}
	return nil
}

// sent notes that a client was sent the log up to seq.
func (k *kernelState) sent(c *channels, seq int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.own(c); p != nil {
		p.sent = seq
	}
}

// toAsk returns the position that the client is to be asked to confirm now, if there is one.
func (k *kernelState) toAsk(c *channels) (seq int64, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.own(c)
	if p == nil || len(p.asked) >= maxAsked || p.sent <= p.seq || slices.Contains(p.asked, p.sent) {
		return 0, false
	}
	p.asked = append(p.asked, p.sent)
	return p.sent, true
}

// read notes that a client has read the log up to seq, if it was asked about that.
func (k *kernelState) read(c *channels, seq int64) bool {
	k.mu.Lock()
	p := k.own(c)
	i := -1
	if p != nil {
		i = slices.Index(p.asked, seq)
	}
	if i < 0 {
		k.mu.Unlock()
		return false
	}
	p.seq, p.asked = seq, slices.Delete(p.asked, 0, i+1)
	mark := p.mark
	k.mu.Unlock()
	mark.set(seq)
	return true
}

// leave removes a connection.
func (k *kernelState) leave(c *channels) {
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	if k.remove(c) && k.all.by[k.key] == k {
		k.all.keep(k, c)
	}
}

// remove removes a connection, and reports whether it was the last one.
func (k *kernelState) remove(c *channels) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.open, c)
	if p := k.places[c.id]; p != nil && p.owner == c {
		p.owner = nil
	}
	for id, p := range k.parents {
		if p.socket == c {
			p.socket = nil
			k.parents[id] = p
		}
	}
	return len(k.open) == 0
}

// size returns of how many clients the position is known, and how many requests are kept.
func (k *kernelState) size() (places, requests int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.places), len(k.parents)
}

// keep decides what becomes of a kernel without connections: one that is deleted, or that nobody can come back to, is forgotten,
// and so are the owner's oldest ones of too many. The caller holds kernels.mu.
func (s *kernels) keep(k *kernelState, last *channels) {
	select {
	case <-last.sess.Deleted():
		delete(s.by, k.key)
		return
	default:
	}
	if places, _ := k.size(); places == 0 {
		delete(s.by, k.key)
		return
	}
	s.left = append(s.left, k)
	count, requests := 0, 0
	for i := len(s.left) - 1; i >= 0; i-- { // the newest first
		other := s.left[i]
		if other.key.owner != k.key.owner {
			continue
		}
		_, more := other.size()
		count, requests = count+1, requests+more
		if count > maxLeft || requests > maxLeftRequests {
			delete(s.by, other.key)
			s.left = slices.Delete(s.left, i, i+1)
		}
	}
}

// expect notes the request for an execution before it is submitted.
func (k *kernelState) expect(execution string, p parent) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.parents[execution] = p
}

// end notes that an execution has ended, or was refused.
func (k *kernelState) end(execution string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.parents[execution]; !known || slices.Contains(k.ended, execution) {
		return
	}
	if k.ended = append(k.ended, execution); len(k.ended) > maxEnded {
		delete(k.parents, k.ended[0])
		k.ended = slices.Delete(k.ended, 0, 1)
	}
}

// expected returns the request that expect noted.
func (k *kernelState) expected(execution string) (parent, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, ok := k.parents[execution]
	return p, ok
}

// session names one life of the kernel: clients drop messages of an earlier one.
func (k *kernelState) session(generation int64) string {
	return k.id + "-" + formatInt(generation)
}
