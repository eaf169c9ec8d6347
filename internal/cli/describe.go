package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"vmop/internal/yamlfile"
	"vmop/vmtypes/policy"
)

// Describe returns the text of an error for people. For errors in a file it contains excerpts.
func Describe(err error) string {
	var faults yamlfile.Faults
	if errors.As(err, &faults) && !slices.ContainsFunc(faults, func(f yamlfile.Fault) bool { return f.Line > 0 }) {
		return faults.Error() // errors in flags have no file to quote
	} else if len(faults) > 0 {
		where := "configuration"
		if errors.As(err, new(*policy.FileError)) {
			where = "policy for VM types"
		}
		return fmt.Sprintf("%s in the %s\n%s",
			countOf(len(faults), "error"), where, strings.TrimSuffix(faults.Excerpts(), "\n"))
	}
	return err.Error()
}

// countOf returns "1 error", "2 errors".
func countOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
