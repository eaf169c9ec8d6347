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

	"vmop/manager/vm/objects"
)

// collection stores the objects of one kind in the manager's namespace, each in as few bytes as possible. It is
// the store of a Reflector.
type collection[T client.Object] struct {
	encoding[T]
	by *compressor
	// changed is called for each object that is created, changed or deleted.
	changed func(name string, r record)

	mu         sync.RWMutex // guards the following fields
	records    map[string]record
	seen       uint64              // newest version from the watch, of any object
	irregulars map[string][]string // names of irregular objects, by group
	listed     chan struct{}       // closed after the first list
	once       sync.Once
}

// record is an object in a collection.
type record struct {
	packed  string // without the version
	group   string
	common  unique.Handle[common]
	version uint64
	ram     uint32 // of the guest, in MiB
	cpus    uint16 // of the guest
	urgency int8
	ordinal uint8
}

// common contains the fields that are equal in many records, which share the memory for them; see encoding.
type common struct {
	state, class, permissions, data string
	pooled                          bool
}

// commonOf returns a record's common fields. The record may be zero.
func (r record) commonOf() common {
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

// Transformer implements cache.TransformingStore. It packs the objects of a streamed list as they arrive.
func (c *collection[T]) Transformer() cache.TransformFunc {
	return func(object any) (any, error) { return c.packObject(object) }
}

// packObject trims an object and converts it to a record.
func (c *collection[T]) packObject(object any) (entry, error) {
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
		n.record.group = sharedSubstring(n.name, c.group(o))
	}
	n.record.common = unique.Make(common{
		state: propertyOf(c.state, o), class: propertyOf(c.class, o), permissions: propertyOf(c.permissions, o),
		data:   propertyOf(c.data, o),
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
		n.record.packed, err = c.by.compressText(text)
	}
	if err != nil {
		return n, fmt.Errorf("store %s: %w", n.name, err)
	}
	return n, nil
}

// propertyOf returns the result of a function for an object, or "" if the function is nil.
func propertyOf[T any](what func(T) string, o T) string {
	if what == nil {
		return ""
	}
	return what(o)
}

// sharedSubstring returns part. If text contains part, the result shares the memory of text.
func sharedSubstring(text, part string) string {
	if at := strings.Index(text, part); at >= 0 {
		return text[at : at+len(part)]
	}
	return part
}

// Add implements cache.ReflectorStore.
func (c *collection[T]) Add(object any) error {
	n, err := c.packObject(object)
	if err == nil {
		c.keepRecord(n, false)
	}
	return err
}

// learnWrite stores the result of a write, so that the next decision takes it into account.
func (c *collection[T]) learnWrite(o T) error {
	n, err := c.packObject(o.DeepCopyObject())
	if err == nil {
		c.keepRecord(n, true)
	}
	return err
}

// keepRecord stores a record from the watch or, if learned, from a write. It ignores records that are older than the
// stored record. It also ignores the result of a write if the watch has passed that version: the watch has then
// delivered that version, or the object's deletion, and won't deliver it again. The watch delivers the objects of
// a kind in the order of their versions.
func (c *collection[T]) keepRecord(n entry, learned bool) {
	c.mu.Lock()
	was, had := c.records[n.name]
	old := n.record.version < was.version
	if learned {
		old = n.record.version <= max(was.version, c.seen)
	} else {
		c.seen = max(c.seen, n.record.version)
	}
	if !old {
		c.putRecord(n)
	}
	c.mu.Unlock()
	if !old && (!had || c.needsReconcile(was, n.record)) {
		c.reportChange(n.name, was, n.record)
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
	c.removeRecord(o, false)
	return nil
}

// forgetObject removes an object that a write has found deleted since o was read.
func (c *collection[T]) forgetObject(o T) error {
	c.removeRecord(o, true)
	return nil
}

// removeRecord removes an object, unless a newer object with its name is stored.
func (c *collection[T]) removeRecord(o T, learned bool) {
	name, version := o.GetName(), objects.VersionOf(o)
	c.mu.Lock()
	if !learned {
		c.seen = max(c.seen, version)
	}
	was, had := c.records[name]
	had = had && was.version <= version
	if had {
		c.dropRecord(name)
	}
	c.mu.Unlock()
	if had {
		c.changed(name, was)
	}
}

// Replace implements cache.ReflectorStore. It removes objects that are missing from the list.
func (c *collection[T]) Replace(list []any, version string) error {
	seen, _ := strconv.ParseUint(version, 10, 64) // empty in tests
	all := make([]entry, 0, len(list))
	for _, object := range list {
		n, err := c.packObject(object)
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
		c.putRecord(n)
	}
	c.mu.Unlock()
	for _, n := range all {
		was, had := before[n.name]
		delete(before, n.name)
		if !had || c.needsReconcile(was, n.record) {
			c.reportChange(n.name, was, n.record)
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

// putRecord adds or replaces a record.
func (c *collection[T]) putRecord(n entry) {
	c.dropRecord(n.name)
	c.records[n.name] = n.record
	if c.irregular != nil && c.irregular(n.name, n.record.group) {
		c.irregulars[n.record.group] = append(c.irregulars[n.record.group], n.name)
	}
}

// dropRecord removes a record if it exists.
func (c *collection[T]) dropRecord(name string) {
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

// needsReconcile reports whether a change of a record requires a reconciliation.
func (c *collection[T]) needsReconcile(was, is record) bool {
	return was.version != is.version && (!c.quiet || was.packed != is.packed)
}

// reportChange passes on a change of a record, for both groups if the record moved from one group to another.
func (c *collection[T]) reportChange(name string, was, is record) {
	if was.group != "" && was.group != is.group {
		c.changed(name, was)
	}
	c.changed(name, is)
}

// getObject returns an object with the stored fields, or nil if it does not exist.
func (c *collection[T]) getObject(name string) (object T, err error) {
	c.mu.RLock()
	r, had := c.records[name]
	c.mu.RUnlock()
	if !had {
		return object, nil
	}
	text, err := c.by.decompressText(r.packed)
	if err == nil {
		object, err = c.decode(text)
	}
	if err != nil {
		return object, fmt.Errorf("read %s from the store: %w", name, err)
	}
	object.SetResourceVersion(strconv.FormatUint(r.version, 10))
	return object, nil
}

// hasObject reports whether an object exists.
func (c *collection[T]) hasObject(name string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	_, had := c.records[name]
	return had
}

// urgencyOf returns the urgency of an object, or 0 if it does not exist.
func (c *collection[T]) urgencyOf(name string) int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return int(c.records[name].urgency)
}

// ordinalOf returns the ordinal of an object's pod, or 0 if the object does not exist.
func (c *collection[T]) ordinalOf(name string) int32 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return int32(c.records[name].ordinal)
}

// irregularNames returns the sorted names of the irregular objects in a group.
func (c *collection[T]) irregularNames(group string) []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Sorted(slices.Values(c.irregulars[group]))
}

// irregularGroups returns the groups of all irregular objects.
func (c *collection[T]) irregularGroups() []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Collect(maps.Keys(c.irregulars))
}

// groupNames returns the names of all objects in a group. It visits all records.
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

// objectNames returns the names of all objects.
func (c *collection[T]) objectNames() []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Collect(maps.Keys(c.records))
}

// countStates counts objects by state.
func (c *collection[T]) countStates() map[string]int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	counts := map[string]int{}
	for _, r := range c.records {
		counts[r.commonOf().state]++
	}
	return counts
}

// sumSizes returns the resources that all objects use: CPUs, and RAM in MiB.
func (c *collection[T]) sumSizes() (cpus, ram int64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, r := range c.records {
		cpus, ram = cpus+int64(r.cpus), ram+int64(r.ram)
	}
	return cpus, ram
}

// eachRecord calls see with each object's name and record. see must return quickly.
func (c *collection[T]) eachRecord(see func(name string, r record)) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for name, r := range c.records {
		see(name, r)
	}
}
