package main

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// settledWith makes the test binary settle down in a separate process, because the changes affect the whole process.
const settledWith = "VMRUNNER_TEST_SETTLED"

// A runner that has started uses one processor and collects garbage more often, unless the environment sets other
// values.
func TestSettlingDown(t *testing.T) {
	t.Parallel()
	if os.Getenv(settledWith) != "" {
		postponeGC()
		postponed := debug.SetGCPercent(startGC)
		debug.SetGCPercent(postponed)
		require.Equal(t, os.Getenv("GOGC") == "", postponed == startGC)
		settleProcess()
		percent := debug.SetGCPercent(100)
		require.Equal(t, os.Getenv(settledWith), strconv.Itoa(runtime.GOMAXPROCS(0))+" "+strconv.Itoa(percent))
		return
	}
	for env, want := range map[string]string{
		"": "1 25", "GOMAXPROCS=2": "2 25", "GOGC=70": "1 70",
		"GOGC=off GOMAXPROCS=3": "3 -1",
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSettlingDown$")
		cmd.Env = append(append(os.Environ(), "GOMAXPROCS=", "GOGC=", settledWith+"="+want), strings.Fields(env)...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s:\n%s", env, out)
	}
}
