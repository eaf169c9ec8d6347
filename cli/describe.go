package cli

import (
	"errors"
	"fmt"
	"strings"

	"vmop/vmtypes/policy"
	"vmop/yamlfile"
)

// Describe returns the text of an error for people: faults of a file with excerpts of it.
func Describe(err error) string {
	var faults yamlfile.Faults
	if errors.As(err, &faults) {
		where := "configuration"
		if errors.As(err, new(*policy.FileError)) {
			where = "policy for VM types"
		}
		return fmt.Sprintf("%s in the %s\n%s",
			count(len(faults), "fault"), where, strings.TrimSuffix(faults.Excerpts(), "\n"))
	}
	return err.Error()
}

// count returns "1 fault", "2 faults".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
