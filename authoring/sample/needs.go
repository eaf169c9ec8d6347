package sample

import (
	"maps"
	"strconv"
	"strings"

	"vmop/internal/yamlfile"
)

// The line of a comment with the version of QEMU that a sample needs: "needs: qemu >= 9.1".
const (
	needsWord = "needs:"
	needsQEMU = "qemu >= "
)

// readNeeds returns the version of QEMU that a comment requires, or "". The comment consists of the lines with a prefix
// among the first count lines of the file. In a configuration, other comments may begin with "needs:".
func (e excerpt) readNeeds(prefix string, count int) (version string, faults yamlfile.Faults) {
	for i, line := range e.lines[:min(count, len(e.lines))] {
		text, ok := strings.CutPrefix(line, prefix)
		text = strings.TrimSpace(text)
		wanted, isNeeds := strings.CutPrefix(text, needsWord)
		wanted = strings.TrimSpace(wanted)
		if !ok || !isNeeds || prefix != "" && !strings.HasPrefix(wanted, "qemu") {
			continue
		}
		least, found := strings.CutPrefix(wanted, needsQEMU)
		if !found || !isVersion(least) {
			faults = append(faults, e.faultAt(i+1, 1+strings.Index(line, needsWord), "cannot read \""+text+"\"",
				"write "+needsWord+" "+needsQEMU+"9.1"))
			continue
		}
		version = least
	}
	return version, faults
}

// isVersion reports whether a text is a version, such as "9", "9.1" and "7.2.22".
func isVersion(text string) bool {
	for part := range strings.SplitSeq(text, ".") {
		if part == "" || len(part) > 4 || strings.Trim(part, "0123456789") != "" {
			return false
		}
	}
	return true
}

// IsOlder reports whether a version of QEMU, such as "7.2.22", is older than another version, such as "9.1".
func IsOlder(version, least string) bool {
	have := strings.Split(version, ".")
	for i, word := range strings.Split(least, ".") {
		wanted, _ := strconv.Atoi(word) // isVersion has checked it
		got := 0
		if i < len(have) {
			got, _ = strconv.Atoi(have[i]) // a suffix counts as 0
		}
		if got != wanted {
			return got < wanted
		}
	}
	return false
}

// OldestQEMU returns the oldest version of QEMU that can run any of a type's samples. It omits types with a sample that
// needs no version.
func OldestQEMU(samples []*Sample) map[string]string {
	oldest := map[string]string{}
	for _, s := range samples {
		if least, seen := oldest[s.Type]; !seen || IsOlder(s.NeedsQEMU, least) {
			oldest[s.Type] = s.NeedsQEMU
		}
	}
	maps.DeleteFunc(oldest, func(_, least string) bool { return least == "" })
	return oldest
}
