package apply

import (
	"slices"
	"time"

	"vmop/manager/objects"
)

// written is a version of an object that is as it should be.
type written struct {
	hash       string
	version    uint64
	generation int64
	seen       bool // it has been in a snapshot
	at         time.Time
}

// writes are what was written for a VM, by kind and, for claims, name: so few that a map
// would be larger.
type writes []write

type write struct {
	what string
	written
}

func (all writes) index(what string) int {
	return slices.IndexFunc(all, func(w write) bool { return w.what == what })
}

func (all writes) of(what string) (written, bool) {
	if i := all.index(what); i >= 0 {
		return all[i].written, true
	}
	return written{}, false
}

func (all *writes) set(what string, w written) {
	if i := all.index(what); i >= 0 {
		(*all)[i].written = w
		return
	}
	*all = append(*all, write{what, w})
}

func (all *writes) forget(what string) {
	*all = slices.DeleteFunc(*all, func(w write) bool { return w.what == what })
}

// deliveryTime is how long an object that was written may take until a watch brings it.
const deliveryTime = 30 * time.Second

// current reports whether an object is as it should be, or is on its way: it has the hash
// of what is to be applied, and has not been changed since. have is that of the
// snapshot, nil if there is none.
func (m *Memory) current(what, hash string, have *objects.Metadata, now time.Time) bool {
	last, remembered := m.written.of(what)
	if have == nil {
		return remembered && !last.seen && last.hash == hash && now.Sub(last.at) < deliveryTime
	}
	version := objects.VersionOf(have)
	if remembered && version < last.version { // the snapshot is older
		return last.hash == hash
	}
	if have.Annotations[objects.AnnotationApplied] != hash {
		return false
	}
	if remembered && last.hash == hash && last.changed(have) {
		return false
	}
	m.written.set(what, written{hash: hash, version: version, generation: have.Generation, seen: true, at: now})
	return true
}

// changed reports whether another client has changed an object. Kinds with a generation have a
// status, whose changes don't count.
func (w written) changed(have *objects.Metadata) bool {
	if w.generation != 0 {
		return have.Generation != w.generation
	}
	return objects.VersionOf(have) != w.version
}

// current is that of the memory. An object that was written and is not in the snapshot is
// checked again: it may have been deleted before a watch could bring it.
func (r *Round) current(what, hash string, have *objects.Metadata) bool {
	current := r.memory.current(what, hash, have, r.Now)
	if current && have == nil {
		r.retryAt(r.Now.Add(deliveryTime))
	}
	return current
}
