package yamlfile

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"vmop/internal/spelling"
)

// A Dialect describes the specifics of one kind of file. The zero value is a document with paths that begin at its
// top.
type Dialect struct {
	// Section is the topmost key below which the paths begin, such as "/Runner", which may also be written
	// "_Runner". Other topmost keys with a slash or an underscore belong to other programs.
	Section string
	// Content completes the message about an empty section: "its key vm describes the VM".
	Content string
	// Renamed returns the path of a key that has another name in files for other programs, or a hint what to do if
	// the key has no equivalent. It may be nil.
	Renamed func(path string) (called, hint string)
	// Meant returns the paths of the keys that a user may mean by another word. It may be nil.
	Meant func(path string) []string
	// Secret is a key of the section with content that messages must not quote; may be empty.
	Secret string
}

// A Reader reads one file, step by step, and collects its errors. Steps continue after errors, so that all errors
// are reported together.
type Reader struct {
	*report
	dialect Dialect
	root    *yaml.Node   // nil if the file has syntax errors or is empty
	shape   reflect.Type // type of the decoded value
	// doubtful lists the paths with an error, and the paths that misspelled keys may mean. A later error that
	// depends on them may only be a consequence.
	doubtful []string

	depth   int
	aliases []*yaml.Node    // the aliases that are being followed
	aliased int             // number of nodes reached through an alias
	listed  map[string]bool // mappings with a hint that lists their keys
}

// NewReader parses data, the content of a file. Messages use name for the file.
func NewReader(name string, data []byte, dialect Dialect) *Reader {
	doc := &Document{name: name, secret: dialect.Secret, at: map[string]place{}}
	r := &Reader{report: &report{doc: doc}, dialect: dialect, listed: map[string]bool{}}
	r.root = r.parseDocument(data)
	doc.inFile = len(doc.lines)
	return r
}

// Decode decodes a YAML document into the struct that into points to, according to its yaml tags. Messages use name
// for the file. The error is of type Faults and contains all errors, such as unknown keys and wrong types.
func Decode(name string, data []byte, into any) (*Document, error) {
	r := NewReader(name, data, Dialect{})
	if r.root == nil {
		r.refuseEmpty()
		return nil, r.Err()
	}
	r.decodeInto(nil, r.root, into)
	return r.doc, r.Err()
}

// Section finds the dialect's section and decodes it into the struct that into points to. If the section doesn't
// exist, it records an error and returns false.
func (r *Reader) Section(into any) bool {
	if r.root == nil {
		r.refuseEmpty()
		return false
	}
	quoted := strconv.Quote(r.dialect.Section)
	if r.root.Kind != yaml.MappingNode {
		r.refuseNode(r.root, "", "must be a mapping with the section "+quoted+", not "+describeNode(r.root), "")
		return false
	}
	r.shape = reflect.TypeOf(into).Elem()
	var found []entry
	faults := len(r.faults)
	for _, e := range r.entriesOf("", r.root) {
		switch key := e.key.Value; {
		case r.isSection(key):
			found = append(found, e)
		case strings.HasPrefix(key, "/") || strings.HasPrefix(key, "_"):
			message := "the section " + strconv.Quote(clipWord(key)) + " is ignored"
			r.addWarning(e.key.Line, e.key.Column, "", message, "only "+r.dialect.Section+" is read")
		default:
			r.refuseNode(e.key, clipWord(key), "unknown section", r.suggestSection(key))
		}
	}
	switch {
	case len(found) == 0:
		if len(r.faults) == faults {
			r.refuseNode(r.root, "", "there is no section "+quoted, "")
		}
		return false
	case isEmpty(found[0].value):
		r.refuseNode(found[0].key, "", "the section "+found[0].key.Value+" is empty", r.dialect.Content)
		return false
	}
	for _, e := range found[1:] {
		first := fmt.Sprintf("first on line %d, as %s", found[0].key.Line, found[0].key.Value)
		r.refuseNode(e.key, "", "the section is here twice", first)
	}
	r.decodeInto(found[0].key, found[0].value, into)
	return true
}

func (r *Reader) decodeInto(key, n *yaml.Node, into any) {
	to := reflect.ValueOf(into).Elem()
	r.shape = to.Type()
	r.decodeNode("", key, n, to)
}

// isSection reports whether a topmost key is the key of the dialect's section.
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

// refuseEmpty reports that the document is missing, unless there are other errors.
func (r *Reader) refuseEmpty() {
	if len(r.faults) > 0 {
		return
	}
	hint := ""
	if r.dialect.Section != "" {
		hint = "add the section " + strconv.Quote(r.dialect.Section)
	}
	r.addFault(1, 1, "", "the file is empty", hint)
}

// Refuse reports an error at a path of the file, or at the longest existing part of it. also lists other paths that
// the error depends on. Refuse ignores errors that may only be consequences of another error.
func (r *Reader) Refuse(path string, also []string, message, hint string) {
	if r.isConsequence(path) || r.isConsequence(also...) {
		return
	}
	at := r.doc.nearestPlace(path)
	r.addFault(at.line, at.column, path, message, hint)
}

// RefuseAt reports an error at a line and a column, counted from 1.
func (r *Reader) RefuseAt(line, column int, path, message, hint string) {
	r.addFault(line, column, path, message, hint)
}

// Warn adds a warning about a path of the file.
func (r *Reader) Warn(path, message, hint string) {
	at := r.doc.nearestPlace(path)
	r.addWarning(at.line, at.column, path, message, hint)
}

// Warnings returns the warnings, in the order they were found.
func (r *Reader) Warnings() []Warning { return r.warnings }

// Err returns all errors, of type Faults and sorted by their places, or nil if there are no errors.
func (r *Reader) Err() error { return r.asError() }

// Document returns the places of the parsed values.
func (r *Reader) Document() *Document { return r.doc }

// refuseNode records an error in the value or key n at path.
func (r *Reader) refuseNode(n *yaml.Node, path, message, hint string) {
	r.doubtful = append(r.doubtful, path)
	r.addFault(n.Line, n.Column, path, message, hint)
}

// isConsequence reports whether an error at one of these paths may only follow from an earlier error.
func (r *Reader) isConsequence(paths ...string) bool {
	return slices.ContainsFunc(paths, func(path string) bool {
		return slices.ContainsFunc(r.doubtful, func(doubt string) bool { return isWithin(path, doubt) })
	})
}
