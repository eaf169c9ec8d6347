package config

import (
	"errors"
	"reflect"

	"vmop/vmspec"
)

// A Document is a YAML file of another kind that was read as strictly as a
// configuration.
type Document struct{ places *places }

// Decode reads a YAML document into the struct that into points to, as its yaml
// tags say; name is what the file is called in messages. What is wrong are
// Faults: unknown keys, wrong types, all at once.
func Decode(name string, data []byte, into any) (*Document, error) {
	r := &report{file: name, other: true}
	root := r.parse(data)
	if root == nil {
		if len(r.faults) == 0 {
			r.add(1, 1, "", "the file is empty", "")
		}
		return nil, r.err()
	}
	d := newDecoder(r)
	d.decode("", nil, root, reflect.ValueOf(into).Elem())
	return &Document{d.places}, r.err()
}

// Line returns the line, counted from 1, of a path such as "rules[0].read", or of
// what is there of it.
func (d *Document) Line(path string) int { return max(1, d.places.nearest(path).line) }

// Locate returns faults as Faults with their places in the document; nil if there
// are none.
func (d *Document) Locate(faults []vmspec.Fault) error {
	return (&Config{places: d.places}).Locate(faults)
}

// Given tells whether a key is in the document with a value.
func (d *Document) Given(path string) bool { return d.places.given(path) }

// Warn returns a warning with its place in the document.
func (d *Document) Warn(path, message, hint string) Warning {
	at := d.places.nearest(path)
	r := &report{file: d.places.file, lines: d.places.lines}
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
