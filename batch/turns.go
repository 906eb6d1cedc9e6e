package batch

import "slices"

// entry is an item that waits: its place in the job, and the session that it names, "" for one of its own.
type entry struct {
	index   int
	session string
	tried   bool // before, so its session may have been made already, or have its cell
}

// turns decides which item runs next: free slots go round the owners that have something to run, and for each of them
// round its jobs. Items of one session run one after another, in the order of their job. It is not safe for concurrent
// use.
type turns struct {
	free   int
	owners []*owner // whose turn comes next is first
	busy   map[place]bool
}

// owner is an owner of jobs; whose turn comes next is first.
type owner struct {
	name string
	jobs []*job
}

// place is a session that an item runs in.
type place struct{ owner, session string }

func newTurns(slots int) turns { return turns{free: slots, busy: map[place]bool{}} }

// add appends a job, and its owner if that has no other.
func (t *turns) add(j *job) {
	for _, o := range t.owners {
		if o.name == j.owner {
			o.jobs = append(o.jobs, j)
			return
		}
	}
	t.owners = append(t.owners, &owner{j.owner, []*job{j}})
}

// remove forgets a job.
func (t *turns) remove(j *job) {
	for i, o := range t.owners {
		if o.name != j.owner {
			continue
		}
		if o.jobs = slices.DeleteFunc(o.jobs, func(other *job) bool { return other == j }); len(o.jobs) == 0 {
			t.owners = slices.Delete(t.owners, i, i+1)
		}
		return
	}
}

// next takes a slot for the item whose turn it is, and takes the item out of its job's queue. ok is false if no slot is
// free or nothing can run.
func (t *turns) next() (j *job, e entry, ok bool) {
	if t.free <= 0 {
		return nil, entry{}, false
	}
	for i, o := range t.owners {
		for k, j := range o.jobs {
			at := t.runnable(j)
			if at < 0 {
				continue
			}
			e := j.queue[at]
			j.queue = slices.Delete(j.queue, at, at+1)
			o.jobs = append(slices.Delete(o.jobs, k, k+1), j)
			t.owners = append(slices.Delete(t.owners, i, i+1), o)
			t.adopt(j, e)
			return j, e, true
		}
	}
	return nil, entry{}, false
}

// runnable returns the place in the job's queue of the first item that can run now, or -1.
func (t *turns) runnable(j *job) int {
	if j.paused || j.concurrency > 0 && j.running >= j.concurrency {
		return -1
	}
	return slices.IndexFunc(j.queue, func(e entry) bool { return e.session == "" || !t.busy[place{j.owner, e.session}] })
}

// adopt takes a slot for an item that runs already, even if none is free.
func (t *turns) adopt(j *job, e entry) {
	t.free--
	j.running++
	if e.session != "" {
		t.busy[place{j.owner, e.session}] = true
	}
}

// release gives back the slot of an item.
func (t *turns) release(j *job, e entry) {
	t.free++
	j.running--
	if e.session != "" {
		delete(t.busy, place{j.owner, e.session})
	}
}
