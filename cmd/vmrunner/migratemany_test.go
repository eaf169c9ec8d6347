package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/guest"
	"vmop/test/tier"
)

// anonymous returns the private memory of a process in KiB.
func anonymous(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	found := regexp.MustCompile(`RssAnon:\s+(\d+) kB`).FindSubmatch(text)
	require.NotNil(t, found)
	kib, err := strconv.Atoi(string(found[1]))
	require.NoError(t, err)
	return kib
}

// kept returns the names of the files in a VM's folder.
func kept(t *testing.T, dir string) (names []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(filepath.Join(dir, "data"), func(path string, _ os.DirEntry, err error) error {
		names = append(names, path)
		return err
	}))
	return names
}

// A guest that moves back and forth loses none of the records that it writes to its memory and its disk. The memory and
// the files of its runners do not grow with the number of moves. VMOP_MOVES is the number of moves.
func TestAGuestMovesBackAndForth(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	count, _ := chance(t, "VMOP_MOVES", 6)
	section := counterSection(t)
	disk := filepath.Join(t.TempDir(), "recorder.img")
	require.NoError(t, os.WriteFile(disk, guest.Recorder(), 0o600))
	section[len(section)-1] = "drives: [{file: " + disk + ", bootindex: 1}]"
	j := begin(t, section...)
	var memory []int
	var files []string // in the folder to which it returns
	for n := range count {
		j.moves()
		said := console(t, j.toDir)
		said.await(`(?m)^[0-9a-f]{8}\r?$`)
		require.NotContains(t, said.out.out.String(), guest.RecorderFails)
		memory = append(memory, anonymous(t, j.receiving.cmd.Process.Pid))
		if there := kept(t, j.toDir); n%2 == 1 {
			if files == nil {
				files = there
			}
			require.Equal(t, files, there)
		}
		j = j.back()
		j.expects()
	}
	j.sending.ends()
	text, err := os.ReadFile(disk)
	require.NoError(t, err)
	last := guest.LastRecord(text)
	require.Greater(t, last, uint32(count))
	require.NoError(t, guest.CheckRecords(text, last))
	few := min(10, count/2)
	first, later := slices.Clone(memory[:few]), slices.Clone(memory[count-few:])
	slices.Sort(first)
	slices.Sort(later)
	t.Logf("%d moves, %d records; the runner that has the guest has %d KiB at first, %d KiB at last (medians of %d)",
		count, last, first[few/2], later[few/2], few)
	require.Less(t, later[few/2], first[few/2]*5/4)
}
