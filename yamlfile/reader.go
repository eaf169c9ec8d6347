package yamlfile

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"vmop/spelling"
)

// A Dialect is what one kind of file has of its own. The zero value is a document
// whose paths begin at its top.
type Dialect struct {
	// Section is the topmost key in which the paths begin, such as "/Runner", which
	// may also be written "_Runner". Topmost keys with a slash or an underscore that
	// are none of it belong to other programs.
	Section string
	// Content completes the message about an empty section: "its key vm describes the
	// VM".
	Content string
	// Renamed returns the path of a key that has another name in files made for
	// other programs, or what to do instead where there is no such key; nil if there
	// are none.
	Renamed func(path string) (called, hint string)
	// Secret is a key of the section whose content no message quotes; may be empty.
	Secret string
}

// A Reader reads one file, step by step, and collects what is wrong with it. Its
// steps go on after faults, so that all are reported at once.
type Reader struct {
	*report
	dialect Dialect
	root    *yaml.Node   // nil if the file has faults of syntax, or is empty
	shape   reflect.Type // what is decoded into
	// doubtful are paths with a fault, and those that misspelt keys may mean:
	// a fault that rests on them may only be a consequence.
	doubtful []string

	depth   int
	aliases []*yaml.Node    // the aliases that are being followed
	aliased int             // nodes that were reached through an alias
	listed  map[string]bool // mappings whose known keys were listed
}

// NewReader parses data, the content of a file; name is what it is called in
// messages.
func NewReader(name string, data []byte, dialect Dialect) *Reader {
	doc := &Document{name: name, secret: dialect.Secret, at: map[string]place{}}
	r := &Reader{report: &report{doc: doc}, dialect: dialect, listed: map[string]bool{}}
	r.root = r.parse(data)
	doc.inFile = len(doc.lines)
	return r
}

// Decode reads a YAML document into the struct that into points to, as its yaml
// tags say; name is what the file is called in messages. What is wrong are
// Faults: unknown keys, wrong types, all at once.
func Decode(name string, data []byte, into any) (*Document, error) {
	r := NewReader(name, data, Dialect{})
	if r.root == nil {
		r.refuseEmpty()
		return nil, r.Err()
	}
	r.decodeInto(nil, r.root, into)
	return r.doc, r.Err()
}

// Section finds the dialect's section and decodes it into the struct that into
// points to. It returns false, with the reason among the faults, if there is none.
func (r *Reader) Section(into any) bool {
	if r.root == nil {
		r.refuseEmpty()
		return false
	}
	quoted := strconv.Quote(r.dialect.Section)
	if r.root.Kind != yaml.MappingNode {
		r.refuse(r.root, "", "got "+describe(r.root)+", want the section "+quoted, "")
		return false
	}
	r.shape = reflect.TypeOf(into).Elem()
	var found []entry
	faults := len(r.faults)
	for _, e := range r.entries("", r.root) {
		switch key := e.key.Value; {
		case r.isSection(key):
			found = append(found, e)
		case strings.HasPrefix(key, "/") || strings.HasPrefix(key, "_"):
			message := "the section " + strconv.Quote(clip(key)) + " is ignored"
			r.warn(e.key.Line, e.key.Column, "", message, "only "+r.dialect.Section+" is read")
		default:
			r.refuse(e.key, clip(key), "unknown section", r.suggestSection(key))
		}
	}
	switch {
	case len(found) == 0:
		if len(r.faults) == faults {
			r.refuse(r.root, "", "there is no section "+quoted, "")
		}
		return false
	case isEmpty(found[0].value):
		r.refuse(found[0].key, "", "the section "+found[0].key.Value+" is empty", r.dialect.Content)
		return false
	}
	for _, e := range found[1:] {
		first := fmt.Sprintf("first on line %d, as %s", found[0].key.Line, found[0].key.Value)
		r.refuse(e.key, "", "the section is here twice", first)
	}
	r.decodeInto(found[0].key, found[0].value, into)
	return true
}

func (r *Reader) decodeInto(key, n *yaml.Node, into any) {
	to := reflect.ValueOf(into).Elem()
	r.shape = to.Type()
	r.decode("", key, n, to)
}

// isSection reports whether a topmost key is that of the dialect's section.
func (r *Reader) isSection(key string) bool {
	return key == r.dialect.Section || key == "_"+strings.TrimPrefix(r.dialect.Section, "/")
}

func (r *Reader) suggestSection(key string) string {
	section := strconv.Quote(r.dialect.Section)
	bare := strings.TrimPrefix(r.dialect.Section, "/")
	if strings.EqualFold(key, bare) || spelling.Nearest(key, []string{r.dialect.Section}) != "" {
		return "did you mean " + section + "?"
	}
	for known := range keysOf("", r.shape) {
		if known == key {
			return "it belongs in the section " + section + ": indent it"
		}
	}
	return "the section is " + section
}

// refuseEmpty reports that there is no document, if that is all that is wrong.
func (r *Reader) refuseEmpty() {
	if len(r.faults) > 0 {
		return
	}
	hint := ""
	if r.dialect.Section != "" {
		hint = "want the section " + strconv.Quote(r.dialect.Section)
	}
	r.add(1, 1, "", "the file is empty", hint)
}

// Refuse reports a fault at a path of the file, or of what is there of it; also
// are other paths that the judgement rests on. It is left out if it may only be a
// consequence of another fault.
func (r *Reader) Refuse(path string, also []string, message, hint string) {
	if r.consequence(path) || r.consequence(also...) {
		return
	}
	at := r.doc.nearest(path)
	r.add(at.line, at.column, path, message, hint)
}

// RefuseAt reports a fault at a line and a column, counted from 1.
func (r *Reader) RefuseAt(line, column int, path, message, hint string) {
	r.add(line, column, path, message, hint)
}

// Warn adds a warning about a path of the file.
func (r *Reader) Warn(path, message, hint string) {
	at := r.doc.nearest(path)
	r.warn(at.line, at.column, path, message, hint)
}

// Warnings returns what works but should be known, in the order it was found.
func (r *Reader) Warnings() []Warning { return r.warnings }

// Err returns all faults, of type Faults and sorted by their places; nil if there
// are none.
func (r *Reader) Err() error { return r.err() }

// Document returns the places of what was read.
func (r *Reader) Document() *Document { return r.doc }

// refuse notes a fault of the value or key n at path.
func (r *Reader) refuse(n *yaml.Node, path, message, hint string) {
	r.doubtful = append(r.doubtful, path)
	r.add(n.Line, n.Column, path, message, hint)
}

// consequence reports whether a fault of these paths may only follow from one
// that was found before.
func (r *Reader) consequence(paths ...string) bool {
	return slices.ContainsFunc(paths, func(path string) bool {
		return slices.ContainsFunc(r.doubtful, func(doubt string) bool { return within(path, doubt) })
	})
}
