package vmtypes

import (
	"fmt"
	"strings"

	"go.starlark.net/syntax"
)

// APIVersion is the current version of the language of VM types: the names that a module may use, and their
// meaning. docs/vm-types/api-version.md describes which changes are possible within a version.
const APIVersion = 1

// versionGlobal is the name of the global variable with a module's version of the language.
const versionGlobal = "api_version"

// readVersion reads the declared version from the syntax of a module, without evaluating it. A module for a newer
// version may use names that are unknown here; the error must be about the version, not about these names.
//
// See docs/decisions/0027-api-version.md.
func (m *module) readVersion(file *syntax.File) error {
	if strings.HasPrefix(m.name, stockPrefix) {
		return nil // always the current version
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
			return errorAt(pos, "api_version must be a number that is written out, such as api_version = 1: it is read "+
				"before the module is evaluated", nil, nil, source)
		}
		version, ok := literal.Value.(int64)
		switch {
		case !ok || version < 1:
			return errorAt(pos, fmt.Sprintf("api_version is %s; versions are whole numbers, from 1 on",
				clipWord(literal.Raw)), nil, nil, source)
		case version > APIVersion:
			return errorAt(pos, fmt.Sprintf("the module is for version %d of the language of VM types, and this vmrunner "+
				"knows version %d: "+
				"use a newer vmrunner, or an earlier version of the module", version, APIVersion), nil, nil, source)
		}
		m.version = int(version)
	}
	return nil
}
