package invariants

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"vmop/internal/readfile"
	"vmop/runner/adopt/lock"
)

// leftovers returns the kernel resources of a VM without processes: descriptors of the caller, which may have been its
// runner; sockets; its locks; mounts; and in the caller's network namespace its taps, and rules without a tap.
func leftovers(t testing.TB, dir string) (found []string) {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	for _, link := range links {
		if path, _ := os.Readlink(link); isBelow(path, dir) { // it may have been closed
			found = append(found, "descriptor of "+path)
		}
	}
	for _, table := range []string{"net/unix", "mountinfo"} {
		text, err := os.ReadFile("/proc/thread-self/" + table)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if table == "mountinfo" && fields[3] == "/" {
				continue // a complete file system belongs to the caller, because runners use bind mounts
			}
			if slices.ContainsFunc(fields, func(word string) bool { return isBelow(word, dir) }) {
				found = append(found, table+": "+strings.TrimSpace(line))
			}
		}
	}
	held, err := lock.Runs(filepath.Join(dir, "data"))
	require.NoError(t, err)
	if held {
		found = append(found, "the lock of the machine")
	}
	return append(found, networkLeftovers(t, dir)...)
}

func isBelow(path, dir string) bool { return strings.HasPrefix(path, dir+"/") }

// networkLeftovers returns the taps of a VM, and rule tables without a tap of any VM.
func networkLeftovers(t testing.TB, dir string) (found []string) {
	t.Helper()
	var own string // contains the VM's UUID
	for _, name := range []string{"config.yaml", "data/uuid.txt"} {
		text, _ := readfile.ReadFile(filepath.Join(dir, name), 1<<20) // tests may replace it with anything
		own += string(text)
	}
	tables, err := new(nftables.Conn).ListTables()
	require.NoError(t, err)
	links, err := netlink.LinkList()
	require.NoError(t, err)
	taps := map[string]bool{}
	for _, link := range links {
		is := link.Attrs()
		taps[is.Name] = true
		if uuid, ours := strings.CutPrefix(is.Alias, "vmop:"); ours && uuid != "" && strings.Contains(own, uuid) {
			found = append(found, "tap "+is.Name)
		}
	}
	for _, table := range tables {
		if tap, ours := strings.CutPrefix(table.Name, "vmop-"); ours && !taps[tap] {
			found = append(found, fmt.Sprintf("rules of tap %s, which is gone", tap))
		}
	}
	return found
}
