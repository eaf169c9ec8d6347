package main

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyWhatWasNeverChangedIsGivenBack(t *testing.T) {
	t.Parallel()
	const smaps = `00400000-00946000 r-xp 00000000 08:01 42                         /bin/vmrunner
Rss:                5000 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
00946000-00947000 r--p 00546000 08:01 42                         /bin/vmrunner
Anonymous:             4 kB
00947000-00948000 rw-p 00547000 08:01 42                         /bin/vmrunner
Anonymous:             0 kB
00948000-00949000 r--p 00547000 08:01 42                         /bin/vmrunner
Anonymous:             0 kB
c000000000-c000400000 rw-p 00000000 00:00 0
Anonymous:             0 kB
7f00-7f01 r-xp 00000000 08:01 43                                 /bin/other
Anonymous:             0 kB
7f02-7f03 r-xp 00000000 00:00 0                                  [vdso]
Anonymous:             0 kB
`
	require.Equal(t, []span{{0x400000, 0x946000}, {0x948000, 0x949000}}, unchangedSpans([]byte(smaps), "/bin/vmrunner"))
	require.Empty(t, unchangedSpans([]byte("x\n"), "/bin/vmrunner"))
}

// The program continues with less memory.
func TestMemoryIsGivenBack(t *testing.T) {
	before := rssFile(t)
	require.NoError(t, shedPages())
	require.Less(t, rssFile(t), before)
}

// rssFile returns the resident file pages of this process in kB.
func rssFile(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	kB := regexp.MustCompile(`RssFile:\s+(\d+) kB`).FindSubmatch(text)
	require.Len(t, kB, 2)
	n, err := strconv.Atoi(string(kB[1]))
	require.NoError(t, err)
	return n
}
