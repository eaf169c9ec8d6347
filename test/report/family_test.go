package main

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain is a report when a test asks for it: a family is one of a whole process.
func TestMain(m *testing.M) {
	if os.Getenv("REPORT_FAMILY") == "" {
		os.Exit(m.Run())
	}
	f, err := beFamily()
	if err == nil {
		err = f.start(exec.Command("sh", "-c", os.Getenv("REPORT_FAMILY")))
	}
	if err == nil {
		err = f.end(context.Background(), os.Stdout)
	}
	if err != nil {
		os.Exit(1)
	}
}

// A process that a test has left running is ended, also one that has moved to a session of its own, and named.
func TestLeftProcessesAreEndedAndNamed(t *testing.T) {
	t.Parallel()
	for script, names := range map[string]string{
		"(setsid sleep 1000 &)":             "sleep 1000",
		"(setsid sh -c 'sleep 1001; :' &) ": "sleep 1001",
		"(sleep 0.1 &)":                     "",
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "REPORT_FAMILY="+script)
		out, err := cmd.CombinedOutput()
		if names == "" {
			require.NoError(t, err, string(out))
			continue
		}
		require.Error(t, err)
		require.Contains(t, string(out), names)
		for pid := range strings.FieldsSeq(string(out)) {
			require.NoFileExists(t, "/proc/"+pid+"/stat")
		}
	}
}
