package yamlfile

import (
	"errors"
	"strings"

	"gopkg.in/yaml.v3"
)

// A Document maps the paths of a parsed file to their places. It keeps the text of the file, but not its tree.
type Document struct {
	name   string
	lines  []string
	inFile int    // number of lines that are in the file; the others are settings
	secret string // the key with content that messages must not quote
	at     map[string]place
}

// A Problem is an error in a file's values, found by code that doesn't know their places.
type Problem struct {
	// Path of the value: "vm.network[0].mac".
	Path string
	// Message describes the error.
	Message string
	// Hint describes the correct value; may be empty.
	Hint string
	// Key means that the key itself is wrong, not its value.
	Key bool
}

// A place is the position of a path in the file.
type place struct {
	line, column int
	empty        bool // the value is null or missing
	key          *yaml.Node
}

// placeOfPair returns the place of the value if that is a scalar. Otherwise it returns the place of the key, which
// people read first. The items of a list have no key.
func placeOfPair(key, value *yaml.Node) place {
	at := value
	if key != nil && (at.Kind != yaml.ScalarNode && at.Kind != yaml.AliasNode || isEmpty(at)) {
		at = key
	}
	return place{line: at.Line, column: at.Column, empty: isEmpty(value), key: key}
}

// nearestPlace returns the place of a path, or of the longest existing part of it.
func (d *Document) nearestPlace(path string) place {
	for {
		if at, found := d.at[path]; found || path == "" {
			return at
		}
		path = parentPath(path)
	}
}

// Given reports whether the document contains a key with a value.
func (d *Document) Given(path string) bool {
	at, found := d.at[path]
	return found && !at.empty
}

// Line returns the line, counted from 1, of a path such as "rules[0].read", or of the longest existing part of it.
func (d *Document) Line(path string) int { return max(1, d.nearestPlace(path).line) }

// Locate returns problems as Faults with their places in the document, or nil if there are no problems. A nil
// Document stands for a file with unknown contents.
func (d *Document) Locate(problems []Problem) error {
	if d == nil {
		d = &Document{name: "configuration", lines: []string{""}}
	}
	r := &report{doc: d}
	for _, p := range problems {
		at := d.nearestPlace(p.Path)
		if p.Key && at.key != nil {
			at.line, at.column = at.key.Line, at.key.Column
		}
		r.addFault(at.line, at.column, p.Path, p.Message, p.Hint)
	}
	return r.asError()
}

// Warning returns a warning with its place in the document.
func (d *Document) Warning(path, message, hint string) Warning {
	at := d.nearestPlace(path)
	r := &report{doc: d}
	return Warning(r.faultAt(at.line, at.column, path, message, hint))
}

// JoinFaults returns all Faults in the errors of one file, sorted by their places. Each error is of type Faults or
// nil.
func JoinFaults(errs ...error) error {
	r := &report{}
	for _, err := range errs {
		var some Faults
		if errors.As(err, &some) {
			r.faults = append(r.faults, some...)
		}
	}
	return r.asError()
}

// parentPath returns the path that contains a path. For "vm.network[0].mac" that is "vm.network[0]", followed by
// "vm.network", "vm" and finally "". For "/a/b.c" it is "/a/b".
func parentPath(path string) string {
	if strings.HasPrefix(path, "/") {
		return path[:max(0, strings.LastIndexAny(path, ".[/"))]
	}
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

// isWithin reports whether a path is equal to another path or part of it.
func isWithin(path, other string) bool {
	rest, same := strings.CutPrefix(path, other)
	return same && (rest == "" || rest[0] == '.' || rest[0] == '[' || rest[0] == '/')
}
