package store

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unique"

	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmop/manager/objects"
)

// A collection has the objects of a kind in the manager's namespace, each in as few
// bytes as possible. It is the store of a Reflector.
type collection[T client.Object] struct {
	encoding[T]
	by *compressor
	// changed is called with what is new, has changed, or is gone.
	changed func(name string, r record)

	mu         sync.RWMutex // of what follows
	records    map[string]record
	seen       uint64              // the newest version that the watch has brought, of any object
	irregulars map[string][]string // names of the irregular ones, by group
	listed     chan struct{}       // closed after the first list
	once       sync.Once
}

// record is an object in a collection.
type record struct {
	packed  string // without the version
	group   string
	common  unique.Handle[common]
	version uint64
	ram     uint32 // that the guest has, in MiB
	cpus    uint16 // likewise
	urgency int8
	ordinal uint8
}

// common is what many records have alike, whose memory they share: see encoding.
type common struct {
	state, class, permissions, data string
	pooled                          bool
}

// in returns what a record, which may be zero, has in common with others.
func (r record) in() common {
	if r.common == (unique.Handle[common]{}) {
		return common{}
	}
	return r.common.Value()
}

// entry is a record on its way into a collection.
type entry struct {
	name   string
	record record
}

func newCollection[T client.Object](e encoding[T], by *compressor, changed func(string, record)) *collection[T] {
	return &collection[T]{
		encoding: e, by: by, changed: changed,
		records: map[string]record{}, irregulars: map[string][]string{}, listed: make(chan struct{}),
	}
}

// Transformer implements cache.TransformingStore: the objects of a streamed list are
// packed as they arrive.
func (c *collection[T]) Transformer() cache.TransformFunc {
	return func(object any) (any, error) { return c.pack(object) }
}

// pack makes a record of an object, which is trimmed.
func (c *collection[T]) pack(object any) (entry, error) {
	if done, ok := object.(entry); ok {
		return done, nil
	}
	o, ok := object.(T)
	if !ok {
		return entry{}, fmt.Errorf("store an object: unexpected type %T", object)
	}
	c.trim(o)
	n := entry{name: o.GetName(), record: record{version: objects.VersionOf(o)}}
	if c.group != nil {
		n.record.group = within(n.name, c.group(o))
	}
	n.record.common = unique.Make(common{
		state: of(c.state, o), class: of(c.class, o), permissions: of(c.permissions, o), data: of(c.data, o),
		pooled: c.pooled != nil && c.pooled(o),
	})
	if c.urgency != nil {
		n.record.urgency = int8(c.urgency(o))
	}
	if c.ordinal != nil {
		n.record.ordinal = uint8(c.ordinal(o))
	}
	if c.use != nil {
		n.record.cpus, n.record.ram = c.use(o)
	}
	o.SetResourceVersion("")
	text, err := c.encode(o)
	if err == nil {
		n.record.packed, err = c.by.compress(text)
	}
	if err != nil {
		return n, fmt.Errorf("store %s: %w", n.name, err)
	}
	return n, nil
}

// of returns what a function, which may be nil, has of an object.
func of[T any](what func(T) string, o T) string {
	if what == nil {
		return ""
	}
	return what(o)
}

// within returns a part of a text, in the memory of the text if the text contains it.
func within(text, part string) string {
	if at := strings.Index(text, part); at >= 0 {
		return text[at : at+len(part)]
	}
	return part
}

// Add implements cache.ReflectorStore.
func (c *collection[T]) Add(object any) error {
	n, err := c.pack(object)
	if err == nil {
		c.keep(n, false)
	}
	return err
}

// learn stores what a write has returned, so that what is decided next knows of it.
func (c *collection[T]) learn(o T) error {
	n, err := c.pack(o.DeepCopyObject())
	if err == nil {
		c.keep(n, true)
	}
	return err
}

// keep stores a record that the watch has brought or, learned, a write. What is older than what is there stays
// out; so does what a write has returned if the watch is further: it has brought that, or that the object is gone,
// and won't do so again. The watch brings the objects of a kind in the order of their versions.
func (c *collection[T]) keep(n entry, learned bool) {
	c.mu.Lock()
	was, had := c.records[n.name]
	old := n.record.version < was.version
	if learned {
		old = n.record.version <= max(was.version, c.seen)
	} else {
		c.seen = max(c.seen, n.record.version)
	}
	if !old {
		c.put(n)
	}
	c.mu.Unlock()
	if !old && (!had || c.differs(was, n.record)) {
		c.report(n.name, was, n.record)
	}
}

// Update implements cache.ReflectorStore.
func (c *collection[T]) Update(object any) error { return c.Add(object) }

// Delete implements cache.ReflectorStore.
func (c *collection[T]) Delete(object any) error {
	o, ok := object.(T)
	if !ok {
		return fmt.Errorf("remove an object from the store: unexpected type %T", object)
	}
	c.remove(o, false)
	return nil
}

// forget removes what a write has found to be gone since o was read.
func (c *collection[T]) forget(o T) error {
	c.remove(o, true)
	return nil
}

// remove removes an object, unless there is a newer one of its name.
func (c *collection[T]) remove(o T, learned bool) {
	name, version := o.GetName(), objects.VersionOf(o)
	c.mu.Lock()
	if !learned {
		c.seen = max(c.seen, version)
	}
	was, had := c.records[name]
	had = had && was.version <= version
	if had {
		c.drop(name)
	}
	c.mu.Unlock()
	if had {
		c.changed(name, was)
	}
}

// Replace implements cache.ReflectorStore: what is not in the list is gone.
func (c *collection[T]) Replace(list []any, version string) error {
	seen, _ := strconv.ParseUint(version, 10, 64) // tests have none
	all := make([]entry, 0, len(list))
	for _, object := range list {
		n, err := c.pack(object)
		if err != nil {
			return err
		}
		all = append(all, n)
	}
	c.mu.Lock()
	before := c.records
	c.seen = seen
	c.records, c.irregulars = make(map[string]record, len(all)), map[string][]string{}
	for _, n := range all {
		c.put(n)
	}
	c.mu.Unlock()
	for _, n := range all {
		was, had := before[n.name]
		delete(before, n.name)
		if !had || c.differs(was, n.record) {
			c.report(n.name, was, n.record)
		}
	}
	for name, was := range before {
		c.changed(name, was)
	}
	c.once.Do(func() { close(c.listed) })
	return nil
}

// Resync implements cache.ReflectorStore.
func (c *collection[T]) Resync() error { return nil }

// put adds or replaces a record.
func (c *collection[T]) put(n entry) {
	c.drop(n.name)
	c.records[n.name] = n.record
	if c.irregular != nil && c.irregular(n.name, n.record.group) {
		c.irregulars[n.record.group] = append(c.irregulars[n.record.group], n.name)
	}
}

// drop removes a record, if there is one.
func (c *collection[T]) drop(name string) {
	r, had := c.records[name]
	if !had {
		return
	}
	delete(c.records, name)
	if c.irregular == nil || !c.irregular(name, r.group) {
		return
	}
	c.irregulars[r.group] = slices.DeleteFunc(c.irregulars[r.group], func(n string) bool { return n == name })
	if len(c.irregulars[r.group]) == 0 {
		delete(c.irregulars, r.group)
	}
}

// differs reports whether a change of a record needs a reconciliation.
func (c *collection[T]) differs(was, is record) bool {
	return was.version != is.version && (!c.quiet || was.packed != is.packed)
}

// report passes on a change of a record, for both groups if it moved from one to another.
func (c *collection[T]) report(name string, was, is record) {
	if was.group != "" && was.group != is.group {
		c.changed(name, was)
	}
	c.changed(name, is)
}

// get returns an object, as far as it is kept; nil if there is none.
func (c *collection[T]) get(name string) (object T, err error) {
	c.mu.RLock()
	r, had := c.records[name]
	c.mu.RUnlock()
	if !had {
		return object, nil
	}
	text, err := c.by.decompress(r.packed)
	if err == nil {
		object, err = c.decode(text)
	}
	if err != nil {
		return object, fmt.Errorf("read %s from the store: %w", name, err)
	}
	object.SetResourceVersion(strconv.FormatUint(r.version, 10))
	return object, nil
}

// has reports whether there is an object of that name.
func (c *collection[T]) has(name string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	_, had := c.records[name]
	return had
}

// urgencyOf returns the urgency of an object, 0 if there is no such object.
func (c *collection[T]) urgencyOf(name string) int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return int(c.records[name].urgency)
}

// ordinalOf returns the ordinal of an object's pod, 0 if there is no such object.
func (c *collection[T]) ordinalOf(name string) int32 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return int32(c.records[name].ordinal)
}

// irregularNames returns the names of a group's irregular objects, sorted.
func (c *collection[T]) irregularNames(group string) []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Sorted(slices.Values(c.irregulars[group]))
}

// groups returns the groups of all irregular objects.
func (c *collection[T]) groups() []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Collect(maps.Keys(c.irregulars))
}

// groupNames returns the names of all objects in a group. It goes through all records.
func (c *collection[T]) groupNames(group string) []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var names []string
	for name, r := range c.records {
		if r.group == group {
			names = append(names, name)
		}
	}
	return names
}

// names returns the names of all objects.
func (c *collection[T]) names() []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Collect(maps.Keys(c.records))
}

// states counts objects by their state.
func (c *collection[T]) states() map[string]int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	counts := map[string]int{}
	for _, r := range c.records {
		counts[r.in().state]++
	}
	return counts
}

// sum returns what all objects use: CPUs, and RAM in MiB.
func (c *collection[T]) sum() (cpus, ram int64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, r := range c.records {
		cpus, ram = cpus+int64(r.cpus), ram+int64(r.ram)
	}
	return cpus, ram
}

// each calls see with each object's name and record. see must return at once.
func (c *collection[T]) each(see func(name string, r record)) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for name, r := range c.records {
		see(name, r)
	}
}
