package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// shedPages releases the pages of the program's own file that the start has mapped. Linux maps code and constants from
// the page cache again when they are needed, and most of the pages used by the start are not needed again.
// Without shed, Linux would reclaim the pages only under memory pressure, and they would count towards the
// container's memory until then.
//
// See docs/decisions/0024-shed.md.
func shedPages() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return err
	}
	for _, m := range unchangedSpans(maps, program) {
		if err := adviseDontNeed(m.from, m.to); err != nil {
			return fmt.Errorf("release the pages %x-%x: %w", m.from, m.to, err)
		}
	}
	return nil
}

// span is a range of addresses.
type span struct{ from, to uintptr }

// unchangedSpans returns the mappings of a file without modified pages. Only those can be mapped again without loss.
// smaps is in the format of proc_pid_smaps(5).
func unchangedSpans(smaps []byte, file string) []span {
	var found []span
	var last span
	lines := bufio.NewScanner(bytes.NewReader(smaps))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 {
			continue
		}
		if from, to, ok := strings.Cut(fields[0], "-"); ok && !strings.HasSuffix(fields[0], ":") {
			last = span{}
			if perms := fields[1]; len(fields) == 6 && fields[5] == file && perms[1] == '-' {
				last = span{parseAddress(from), parseAddress(to)}
			}
			continue
		}
		if fields[0] == "Anonymous:" && fields[1] == "0" && last.to > last.from {
			found = append(found, last)
		}
	}
	return found
}

func parseAddress(hex string) uintptr {
	n, err := strconv.ParseUint(hex, 16, strconv.IntSize)
	if err != nil {
		return 0
	}
	return uintptr(n)
}

func adviseDontNeed(from, to uintptr) error {
	// The range is a mapping of this program's file, outside Go's heap.
	pages := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(nil), from)), to-from)
	return unix.Madvise(pages, unix.MADV_DONTNEED)
}
