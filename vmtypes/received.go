package vmtypes

import (
	"bytes"
	"slices"

	"golang.org/x/tools/txtar"
)

// archiveReceived is a line of the comment of an archive that another runner has sent.
const archiveReceived = "It came with a guest from another runner, and is limited to what this side's own version does.\n"

// MarkReceived returns an archive with a line in its comment that says that another runner has sent it. It is as good a
// type as before.
func MarkReceived(archive []byte) []byte {
	a := txtar.Parse(Unmarked(archive))
	lines := bytes.TrimRight(a.Comment, "\n")
	a.Comment = slices.Concat(lines, []byte("\n"+archiveReceived+"\n"))
	return txtar.Format(a)
}

// IsReceived reports whether an archive has the line of MarkReceived.
func IsReceived(archive []byte) bool {
	return bytes.Contains(txtar.Parse(archive).Comment, []byte("\n"+archiveReceived))
}

// Unmarked returns an archive without the line of MarkReceived.
func Unmarked(archive []byte) []byte {
	if !IsReceived(archive) {
		return archive
	}
	a := txtar.Parse(archive)
	a.Comment = bytes.ReplaceAll(a.Comment, []byte("\n"+archiveReceived), []byte("\n"))
	return txtar.Format(a)
}
