package yamlfile

import "gopkg.in/yaml.v3"

// Tree parses a YAML document that is a mapping with any keys. The values are nil, bool, int64, float64, string,
// []any and map[string]any. The document knows the places of at most 10,000 values, under the same paths as in
// Decode. Errors are of type Faults.
func Tree(name string, data []byte) (map[string]any, *Document, error) {
	var tree struct {
		All map[string]any `yaml:",inline"`
	}
	r := NewReader(name, data, Dialect{})
	switch {
	case r.root == nil:
		r.refuseEmpty()
	case r.checkKind("", r.root, yaml.MappingNode, "a mapping", ""):
		tree.All = r.freeMapping("", r.root)
	}
	return tree.All, r.doc, r.Err()
}
