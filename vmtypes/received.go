package vmtypes

import (
	"bytes"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"
)

// archiveReceived is a line in the comment of an archive that was received from another runner.
const archiveReceived = "It came with a guest from another runner, and is limited to what this side's own version does.\n"

// MarkReceived returns the archive with a line in its comment that marks it as received from another runner. The
// type itself is unchanged.
func MarkReceived(archive []byte) []byte {
	a := txtar.Parse(Unmarked(archive))
	lines := bytes.TrimRight(a.Comment, "\n")
	a.Comment = slices.Concat(lines, []byte("\n"+archiveReceived+"\n"))
	return txtar.Format(a)
}

// IsReceived reports whether an archive contains the line of MarkReceived.
func IsReceived(archive []byte) bool {
	return bytes.Contains(txtar.Parse(archive).Comment, []byte("\n"+archiveReceived))
}

// Unmarked returns the archive without the lines of MarkReceived and AddProof.
func Unmarked(archive []byte) []byte {
	return withoutLine(withoutLine(archive, strings.TrimSpace(archiveReceived)), archiveSigned)
}
