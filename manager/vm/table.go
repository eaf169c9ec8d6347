package vm

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A table has the objects of a kind in the manager's namespace, each written in as
// few bytes as it can be: the caches of the client libraries take five times as
// much. It is the store of one of their reflectors, which lists, watches, and lists
// again what may have been missed.
type table[T client.Object] struct {
	form[T]
	by *squeezer
	// tell is called with what is new, has changed, or is gone.
	tell func(name string, r row)

	mu     sync.RWMutex // of what follows
	rows   map[string]row
	others map[string][]string // names of the strange ones, by group
	filled chan struct{}       // closed when all that there is has been seen
	once   sync.Once
}

// form says how objects of a kind are kept.
type form[T client.Object] struct {
	cut    func(T) // leaves out what nobody looks at
	encode func(T) ([]byte, error)
	decode func([]byte) (T, error)
	// group is what objects are found by besides their name; state is what they are
	// counted by. Nil: nothing.
	group, state func(T) string
	// strange tells that an object's name does not follow from its group, by which
	// it must be found nevertheless. Nil: none is.
	strange func(name, group string) bool
	// quiet means that a new version of what is otherwise the same concerns nobody.
	quiet bool
}

// row is an object in a table.
type row struct {
	written      string // without the version
	group, state string
	version      uint64
}

// entry is a row on its way into a table.
type entry struct {
	name string
	row  row
}

func newTable[T client.Object](f form[T], by *squeezer, tell func(string, row)) *table[T] {
	return &table[T]{form: f, by: by, tell: tell, rows: map[string]row{}, others: map[string][]string{}, filled: make(chan struct{})}
}

// Transformer implements cache.TransformingStore: a list that is streamed is kept as
// rows while it comes.
func (t *table[T]) Transformer() cache.TransformFunc {
	return func(object any) (any, error) { return t.write(object) }
}

// write makes a row of an object, which is cut.
func (t *table[T]) write(object any) (entry, error) {
	if done, ok := object.(entry); ok {
		return done, nil
	}
	o, ok := object.(T)
	if !ok {
		return entry{}, fmt.Errorf("keep an object: %T is not expected", object)
	}
	t.cut(o)
	n := entry{name: o.GetName(), row: row{version: versionOf(o)}}
	if t.group != nil {
		n.row.group = within(n.name, t.group(o))
	}
	if t.state != nil {
		n.row.state = one(t.state(o))
	}
	o.SetResourceVersion("")
	text, err := t.encode(o)
	if err == nil {
		n.row.written, err = t.by.squeeze(text)
	}
	if err != nil {
		return n, fmt.Errorf("keep %s: %w", n.name, err)
	}
	return n, nil
}

// within returns a part of a text in the memory that the text has.
func within(text, part string) string {
	if at := strings.Index(text, part); at >= 0 {
		return text[at : at+len(part)]
	}
	return part
}

// Add implements cache.ReflectorStore.
func (t *table[T]) Add(object any) error {
	n, err := t.write(object)
	if err != nil {
		return err
	}
	t.mu.Lock()
	was, had := t.rows[n.name]
	t.put(n)
	t.mu.Unlock()
	if !had || t.differs(was, n.row) {
		t.change(n.name, was, n.row)
	}
	return nil
}

// Update implements cache.ReflectorStore.
func (t *table[T]) Update(object any) error { return t.Add(object) }

// Delete implements cache.ReflectorStore.
func (t *table[T]) Delete(object any) error {
	o, ok := object.(T)
	if !ok {
		return fmt.Errorf("forget an object: %T is not expected", object)
	}
	name := o.GetName()
	t.mu.Lock()
	was, had := t.rows[name]
	t.drop(name)
	t.mu.Unlock()
	if had {
		t.tell(name, was)
	}
	return nil
}

// Replace implements cache.ReflectorStore: what is not in the list is gone.
func (t *table[T]) Replace(list []any, _ string) error {
	all := make([]entry, 0, len(list))
	for _, object := range list {
		n, err := t.write(object)
		if err != nil {
			return err
		}
		all = append(all, n)
	}
	t.mu.Lock()
	before := t.rows
	t.rows, t.others = make(map[string]row, len(all)), map[string][]string{}
	for _, n := range all {
		t.put(n)
	}
	t.mu.Unlock()
	for _, n := range all {
		was, had := before[n.name]
		delete(before, n.name)
		if !had || t.differs(was, n.row) {
			t.change(n.name, was, n.row)
		}
	}
	for name, was := range before {
		t.tell(name, was)
	}
	t.once.Do(func() { close(t.filled) })
	return nil
}

// Resync implements cache.ReflectorStore.
func (t *table[T]) Resync() error { return nil }

// put keeps a row.
func (t *table[T]) put(n entry) {
	t.drop(n.name)
	t.rows[n.name] = n.row
	if t.strange != nil && t.strange(n.name, n.row.group) {
		t.others[n.row.group] = append(t.others[n.row.group], n.name)
	}
}

// drop forgets a row.
func (t *table[T]) drop(name string) {
	r, had := t.rows[name]
	if !had {
		return
	}
	delete(t.rows, name)
	if t.strange == nil || !t.strange(name, r.group) {
		return
	}
	t.others[r.group] = slices.DeleteFunc(t.others[r.group], func(n string) bool { return n == name })
	if len(t.others[r.group]) == 0 {
		delete(t.others, r.group)
	}
}

// differs tells whether a row has become another one for somebody.
func (t *table[T]) differs(was, is row) bool {
	return was.version != is.version && (!t.quiet || was.written != is.written)
}

// change tells of a row that has changed, both groups if it went from one to another.
func (t *table[T]) change(name string, was, is row) {
	if was.group != "" && was.group != is.group {
		t.tell(name, was)
	}
	t.tell(name, is)
}

// get returns an object, as far as it was kept; nil if there is none.
func (t *table[T]) get(name string) (object T, err error) {
	t.mu.RLock()
	r, had := t.rows[name]
	t.mu.RUnlock()
	if !had {
		return object, nil
	}
	text, err := t.by.restore(r.written)
	if err == nil {
		object, err = t.decode(text)
	}
	if err != nil {
		return object, fmt.Errorf("look at %s: %w", name, err)
	}
	object.SetResourceVersion(strconv.FormatUint(r.version, 10))
	return object, nil
}

// has tells whether there is an object.
func (t *table[T]) has(name string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	_, had := t.rows[name]
	return had
}

// strangers returns the names of the strange objects of a group.
func (t *table[T]) strangers(group string) []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Sorted(slices.Values(t.others[group]))
}

// names returns those of the objects in a group, whatever they are called; it takes
// its time.
func (t *table[T]) names(group string) []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var names []string
	for name, r := range t.rows {
		if r.group == group {
			names = append(names, name)
		}
	}
	return names
}

// all returns the names of all objects.
func (t *table[T]) all() []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Collect(maps.Keys(t.rows))
}

// states counts objects by their state.
func (t *table[T]) states() map[string]int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	counts := map[string]int{}
	for _, r := range t.rows {
		counts[r.state]++
	}
	return counts
}
