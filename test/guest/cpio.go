package guest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// archive collects files for an initramfs: a cpio archive in the "newc" format of the kernel's
// Documentation/driver-api/early-userspace/buffer-format.rst. Times, owners and inode numbers are fixed and entries are
// sorted by name, so the same files produce the same bytes.
type archive struct {
	entries []entry
}

type entry struct {
	name    string
	mode    uint32 // type and permissions as in stat(2)
	content []byte
}

// addDir adds a folder. Sorting places a folder before its contents, as the kernel requires.
func (a *archive) addDir(name string) {
	a.entries = append(a.entries, entry{name: name, mode: 0o040755})
}

// addFile adds a regular file with the given permissions.
func (a *archive) addFile(name string, permissions uint32, content []byte) {
	a.entries = append(a.entries, entry{name: name, mode: 0o100000 | permissions, content: content})
}

func (a *archive) archiveBytes() []byte {
	slices.SortFunc(a.entries, func(x, y entry) int { return strings.Compare(x.name, y.name) })
	var out bytes.Buffer
	for i, e := range a.entries {
		e.writeEntry(&out, i+1)
	}
	entry{name: "TRAILER!!!"}.writeEntry(&out, 0)
	return out.Bytes()
}

// writeEntry appends the header (thirteen numbers of eight hexadecimal digits), the name with its NUL, and the content,
// each padded to four bytes.
func (e entry) writeEntry(out *bytes.Buffer, inode int) {
	links := 1
	const uid, gid, mtime, major, minor, rmajor, rminor, check = 0, 0, 0, 0, 0, 0, 0, 0
	out.WriteString("070701")
	for _, field := range []int{
		inode, int(e.mode), uid, gid, links, mtime, len(e.content),
		major, minor, rmajor, rminor, len(e.name) + 1, check,
	} {
		fmt.Fprintf(out, "%08x", field)
	}
	out.WriteString(e.name)
	out.WriteByte(0)
	padToFour(out)
	out.Write(e.content)
	padToFour(out)
}

func padToFour(out *bytes.Buffer) {
	for out.Len()%4 != 0 {
		out.WriteByte(0)
	}
}
