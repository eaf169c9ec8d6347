package vmtypes

import (
	"cmp"
	"strings"

	"golang.org/x/tools/txtar"

	"vmop/vmspec"
)

// Generation is the name of this generation of the stock types: the year, and a number within it. A new generation may
// have other defaults for new VMs. A VM keeps the generation of its pinned type.
//
// See docs/vm-types/generations.md and docs/decisions/0194-generations.md.
const Generation = "2026.1"

// archiveGeneration is the prefix of the line with the generation in an archive's comment. Archives older than
// generations lack this line.
const archiveGeneration = "Generation "

// ArchivedGeneration returns the generation of the library in an archive of a type, or "" for an archive that is older
// than generations.
func ArchivedGeneration(data []byte) string {
	_, rest, err := archivedEntry(txtar.Parse(data))
	if err != nil {
		return ""
	}
	return generationLine(rest)
}

// generationLine returns the generation in an archive's comment, or "".
func generationLine(comment string) string {
	for line := range strings.Lines(comment) {
		if name, ok := strings.CutPrefix(line, archiveGeneration); ok {
			return strings.TrimSpace(name)
		}
	}
	return ""
}

// withClock returns the vm section with the clock that the generation chooses, if the user chose none. Types that are
// older than generations keep the default of their time.
func (t *Type) withClock(spec vmspec.Spec) vmspec.Spec {
	clock := "host"
	if t.generation == "" {
		clock = "rt"
	}
	spec.RTCClock = cmp.Or(spec.RTCClock, clock)
	return spec
}
