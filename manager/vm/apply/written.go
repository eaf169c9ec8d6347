package apply

import (
	"slices"
	"time"

	"vmop/manager/vm/objects"
)

// written is an up-to-date version of an object.
type written struct {
	hash       string
	version    uint64
	generation int64
	seen       bool // a snapshot has contained it
	at         time.Time
}

// writes are the objects that were written for a VM, by kind and, for claims, name. They are so few that a map would
// be larger.
type writes []write

type write struct {
	what string
	written
}

func (all writes) indexOf(what string) int {
	return slices.IndexFunc(all, func(w write) bool { return w.what == what })
}

func (all writes) writeOf(what string) (written, bool) {
	if i := all.indexOf(what); i >= 0 {
		return all[i].written, true
	}
	return written{}, false
}

func (all *writes) setWrite(what string, w written) {
	if i := all.indexOf(what); i >= 0 {
		(*all)[i].written = w
		return
	}
	*all = append(*all, write{what, w})
}

func (all *writes) forgetWrite(what string) {
	*all = slices.DeleteFunc(*all, func(w write) bool { return w.what == what })
}

// deliveryTime is how long the watch may take to deliver a written object.
const deliveryTime = 30 * time.Second

// isCurrent reports whether an object is up to date or is on its way: it has the hash of the configuration to apply,
// and has not been changed since. have comes from the snapshot; it is nil if the object doesn't exist.
func (m *Memory) isCurrent(what, hash string, have *objects.Metadata, now time.Time) bool {
	last, remembered := m.written.writeOf(what)
	if have == nil {
		return remembered && !last.seen && last.hash == hash && now.Sub(last.at) < deliveryTime
	}
	version := objects.VersionOf(have)
	if remembered && version < last.version { // the snapshot is out of date
		return last.hash == hash
	}
	if have.Annotations[objects.AnnotationApplied] != hash {
		return false
	}
	if remembered && last.hash == hash && last.hasChanged(have) {
		return false
	}
	m.written.setWrite(what, written{hash: hash, version: version, generation: have.Generation, seen: true, at: now})
	return true
}

// hasChanged reports whether another client has changed an object. Kinds with a generation have a status, and changes
// of the status don't count.
func (w written) hasChanged(have *objects.Metadata) bool {
	if w.generation != 0 {
		return have.Generation != w.generation
	}
	return objects.VersionOf(have) != w.version
}

// isCurrent works like Memory.isCurrent. It also schedules another check of an object that was written and is missing
// in the snapshot: it may have been deleted before the watch could deliver it.
func (r *Round) isCurrent(what, hash string, have *objects.Metadata) bool {
	current := r.memory.isCurrent(what, hash, have, r.Now)
	if current && have == nil {
		r.retryAt(r.Now.Add(deliveryTime))
	}
	return current
}
