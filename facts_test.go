package vmop

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// sameFields lists the exported structs that may have the same fields as another struct, each with the reason. The
// resource's structs need no entry: they have controller-gen markers and use Kubernetes types.
var sameFields = map[string]string{
	"vmtypes/plan.Forward": "a plan imports no configuration: a key of that can get a new meaning",
}

var factRules = []rule{
	{"equal structs", "a field that is added to one of them would be missing in the other", equalStructs},
}

func TestFacts(t *testing.T) {
	t.Parallel()
	enforce(t, factRules)
}

// equalStructs returns exported structs of different packages that have the same four or more fields.
func equalStructs(tr tree) (broken []string) {
	first := map[string]string{}
	for _, s := range tr.written() {
		if s.isIn("api/v1") {
			continue
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			spec, is := n.(*ast.TypeSpec)
			if !is || !spec.Name.IsExported() {
				return true
			}
			key, name := fieldsOf(spec), s.folder()+"."+spec.Name.Name
			if other, known := first[key]; key != "" && known && sameFields[name] == "" && sameFields[other] == "" {
				broken = append(broken, tr.at(spec)+": "+name+" has the fields of "+other)
			}
			first[key] = name
			return true
		})
	}
	return broken
}

// fieldsOf returns the sorted names of a struct's fields, or "" for fewer than four.
func fieldsOf(spec *ast.TypeSpec) string {
	of, is := spec.Type.(*ast.StructType)
	if !is {
		return ""
	}
	var names []string
	for _, f := range of.Fields.List {
		for _, name := range f.Names {
			names = append(names, name.Name)
		}
	}
	if len(names) < 4 || len(names) < len(of.Fields.List) { // embedding is the right way to share fields
		return ""
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestFactRulesBite(t *testing.T) {
	t.Parallel()
	bite(t, factRules, "equal structs", "b.U has the fields of a.T", fstest.MapFS{
		"a/x.go": {Data: []byte("package a\ntype T struct{ A, B int; C, D string }")},
		"b/x.go": {Data: []byte("package b\ntype U struct{ D, C string; A, B int }")},
	})
}
