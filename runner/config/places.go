package config

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// A place is where a path stands in the file.
type place struct {
	key   *yaml.Node // nil in a list
	value *yaml.Node
}

// position is that of the value if it is a single one, else that of the key,
// which is what one reads first.
func (p place) position() (line, column int) {
	at := p.value
	if p.key != nil && (at.Kind != yaml.ScalarNode && at.Kind != yaml.AliasNode || isEmpty(at)) {
		at = p.key
	}
	return at.Line, at.Column
}

// parent returns the path that a path is part of: of "vm.network[0].mac" it is
// "vm.network[0]", then "vm.network", "vm" and at last "".
func parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

// within tells whether a path is the same as another or part of it.
func within(path, other string) bool {
	rest, same := strings.CutPrefix(path, other)
	return same && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
