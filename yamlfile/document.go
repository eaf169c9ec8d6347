package yamlfile

import (
	"errors"
	"strings"

	"gopkg.in/yaml.v3"
)

// A Document says where the paths of a file that was read stand in it. It keeps
// the text of the file, not its tree.
type Document struct {
	name   string
	lines  []string
	inFile int    // how many of the lines are in the file; the others were set
	secret string // the key whose content no message quotes
	at     map[string]place
}

// A Problem is something wrong with what a file says, found by code that does
// not know where it says that.
type Problem struct {
	// Path of the value: "vm.network[0].mac".
	Path string
	// Message says what is wrong with it.
	Message string
	// Hint says what would be right; may be empty.
	Hint string
	// Key says that the key itself is wrong, not its value.
	Key bool
}

// A place is where a path stands in the file.
type place struct {
	line, column int
	empty        bool // the value is null or nothing at all
	key          *yaml.Node
}

// placeOf is the place of the value if it is a single one, else that of the
// key, which is what one reads first. A list's items have no key.
func placeOf(key, value *yaml.Node) place {
	at := value
	if key != nil && (at.Kind != yaml.ScalarNode && at.Kind != yaml.AliasNode || isEmpty(at)) {
		at = key
	}
	return place{line: at.Line, column: at.Column, empty: isEmpty(value), key: key}
}

// nearest returns the place of a path, or of what is there of it.
func (d *Document) nearest(path string) place {
	for {
		if at, found := d.at[path]; found || path == "" {
			return at
		}
		path = parent(path)
	}
}

// Given reports whether a key is in the document with a value.
func (d *Document) Given(path string) bool {
	at, found := d.at[path]
	return found && !at.empty
}

// Line returns the line, counted from 1, of a path such as "rules[0].read", or of
// what is there of it.
func (d *Document) Line(path string) int { return max(1, d.nearest(path).line) }

// Locate returns problems as Faults with their places in the document; nil if
// there are none. A nil Document is a file of which nothing is known.
func (d *Document) Locate(problems []Problem) error {
	if d == nil {
		d = &Document{name: "configuration", lines: []string{""}}
	}
	r := &report{doc: d}
	for _, p := range problems {
		at := d.nearest(p.Path)
		if p.Key && at.key != nil {
			at.line, at.column = at.key.Line, at.key.Column
		}
		r.add(at.line, at.column, p.Path, p.Message, p.Hint)
	}
	return r.err()
}

// Warning returns a warning with its place in the document.
func (d *Document) Warning(path, message, hint string) Warning {
	at := d.nearest(path)
	r := &report{doc: d}
	return Warning(r.fault(at.line, at.column, path, message, hint))
}

// JoinFaults returns all faults of errors of one file, each of type Faults or nil, in
// the order of their places.
func JoinFaults(errs ...error) error {
	r := &report{}
	for _, err := range errs {
		var some Faults
		if errors.As(err, &some) {
			r.faults = append(r.faults, some...)
		}
	}
	return r.err()
}

// parent returns the path that a path is part of: of "vm.network[0].mac" it is
// "vm.network[0]", then "vm.network", "vm" and at last ""; of "/a/b.c" it is "/a/b".
func parent(path string) string {
	if strings.HasPrefix(path, "/") {
		return path[:max(0, strings.LastIndexAny(path, ".[/"))]
	}
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

// within reports whether a path is the same as another or part of it.
func within(path, other string) bool {
	rest, same := strings.CutPrefix(path, other)
	return same && (rest == "" || rest[0] == '.' || rest[0] == '[' || rest[0] == '/')
}
