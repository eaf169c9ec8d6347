// Package format formats the source of VM types, in the same way as "make format". "vmrunner vmtype fmt" and the
// language server call [Source].
package format

import (
	"errors"

	"github.com/bazelbuild/buildtools/build"

	"vmop/vmtypes"
)

// Source returns the formatted source of a module. If the source cannot be parsed, the error is an [*vmtypes.Error]
// with its place in the file called name.
func Source(name, text string) (string, error) {
	if err := vmtypes.Syntax(name, text); err != nil {
		return "", err
	}
	file, err := build.ParseDefault(name, []byte(text))
	var wrong build.ParseError
	if errors.As(err, &wrong) { // Starlark itself allows such a module
		return "", &vmtypes.Error{Message: wrong.Message, File: name, Line: wrong.Pos.Line, Column: wrong.Pos.LineRune}
	}
	if err != nil {
		return "", err
	}
	return string(build.Format(file)), nil
}
