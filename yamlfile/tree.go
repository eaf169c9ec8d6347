package yamlfile

import "gopkg.in/yaml.v3"

// Tree reads a YAML document that is a mapping with whatever keys: the values are nil, bool, int64, float64, string,
// []any and map[string]any. The document has the lines of at most 10,000 of them, by the paths that Decode has, too.
// What is wrong are Faults.
func Tree(name string, data []byte) (map[string]any, *Document, error) {
	var tree struct {
		All map[string]any `yaml:",inline"`
	}
	r := NewReader(name, data, Dialect{})
	switch {
	case r.root == nil:
		r.refuseEmpty()
	case r.wants("", r.root, yaml.MappingNode, "a mapping", ""):
		tree.All = r.free("", r.root)
	}
	return tree.All, r.doc, r.Err()
}
