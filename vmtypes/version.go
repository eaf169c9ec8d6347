package vmtypes

import (
	"fmt"
	"strings"

	"go.starlark.net/syntax"
)

// APIVersion is the version of the language of VM types that this program knows:
// what a module may use, and what it means. What may change within a version is
// said in docs/vm-types/api-version.md.
const APIVersion = 1

// versionGlobal is the name by which a module declares the version of the
// language that it is written for.
const versionGlobal = "api_version"

// readVersion reads the version that a module declares, from its syntax alone:
// a module for a newer version may use names that this one doesn't have, and
// they must not be what is complained about.
//
// See docs/decisions/0027-api-version.md.
func (m *module) readVersion(file *syntax.File) error {
	if strings.HasPrefix(m.name, stockPrefix) {
		return nil // is of this program
	}
	source := func(string) string { return m.source }
	for _, stmt := range file.Stmts {
		assign, ok := stmt.(*syntax.AssignStmt)
		if !ok {
			continue
		}
		id, ok := assign.LHS.(*syntax.Ident)
		if !ok || id.Name != versionGlobal {
			continue
		}
		pos, _ := assign.RHS.Span()
		literal, _ := assign.RHS.(*syntax.Literal)
		if literal == nil || assign.Op != syntax.EQ {
			return at(pos, "api_version must be a number that is written out, such as api_version = 1: it is read "+
				"before the module is evaluated", nil, nil, source)
		}
		version, ok := literal.Value.(int64)
		switch {
		case !ok || version < 1:
			return at(pos, fmt.Sprintf("api_version is %s; versions are whole numbers, from 1 on",
				clipped(literal.Raw)), nil, nil, source)
		case version > APIVersion:
			return at(pos, fmt.Sprintf("the module is for version %d of the language of VM types, and this vmrunner "+
				"knows version %d: "+
				"use a newer vmrunner, or an earlier version of the module", version, APIVersion), nil, nil, source)
		}
		m.version = int(version)
	}
	return nil
}
