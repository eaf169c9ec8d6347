package config

import (
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"vmop/vmspec"
)

// places says where the paths of a file stand in it.
type places struct {
	file   string
	text   []byte
	lines  []string
	inFile int
	at     map[string]place
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
func (p *places) nearest(path string) place {
	for {
		if at, found := p.at[path]; found || path == "" {
			return at
		}
		path = parent(path)
	}
}

// given tells whether a key is in the file.
func (p *places) given(path string) bool {
	at, found := p.at[path]
	return found && !at.empty
}

// Locate returns faults of the vm section as Faults with their places in the
// file that the configuration was read from; nil if there are none. It serves
// checks that go beyond what Load can know, such as vmspec.ResolveResources.
func (c *Config) Locate(faults []vmspec.Fault) error {
	r := &report{file: "configuration", lines: []string{""}}
	where := c.places
	if where != nil {
		r.file, r.lines, r.inFile = where.file, where.lines, where.inFile
	} else {
		where = &places{}
	}
	for _, f := range faults {
		at := where.nearest(f.Path)
		if f.Key && at.key != nil {
			at.line, at.column = at.key.Line, at.key.Column
		}
		r.add(at.line, at.column, f.Path, f.Message, f.Hint)
	}
	return r.err()
}

// consequence tells whether a fault of these paths may only follow from one
// that was found before.
func (d *decoder) consequence(paths ...string) bool {
	return slices.ContainsFunc(paths, func(path string) bool {
		return slices.ContainsFunc(d.doubtful, func(doubt string) bool { return within(path, doubt) })
	})
}

// parent returns the path that a path is part of: of "vm.network[0].mac" it is
// "vm.network[0]", then "vm.network", "vm" and at last ""; of "/a/b.c" it is "/a/b".
func parent(path string) string {
	if strings.HasPrefix(path, "/") {
		return path[:max(0, strings.LastIndexAny(path, ".[/"))]
	}
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

// within tells whether a path is the same as another or part of it.
func within(path, other string) bool {
	rest, same := strings.CutPrefix(path, other)
	return same && (rest == "" || rest[0] == '.' || rest[0] == '[' || rest[0] == '/')
}
