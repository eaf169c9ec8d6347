package config

import (
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
	r := &report{file: name}
	root := r.parse(data)
	if root == nil {
		return nil, r.err()
	}
	d := newDecoder(r)
	d.other = true
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
