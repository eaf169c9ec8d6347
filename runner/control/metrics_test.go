package control

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/status"
	"vmop/vmstatus"
)

func TestMetricsAreWellFormed(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s, err := status.Fold(status.Status{}, began,
		status.Described{Name: "a \"b\"\\\nc", VMType: "standard"}, status.Entered{State: vmstatus.StateBooted},
		status.ConsoleOpened{Kind: status.VNC}, status.Problems{{Message: "x"}},
		status.Pending{Changes: []status.Change{{Path: "vm.firmware"}}})
	require.NoError(t, err)
	text := string(metricsText(s, sample{
		now: began.Add(90 * time.Second), dropped: 3, clients: 2, runner: 12 << 20,
		qemu: 1 << 30, goroutines: 20, descriptors: 11,
	}))
	for _, line := range []string{
		`vmop_vm_uptime_seconds{name="a \"b\"\\\nc"} 90`,
		`vmop_vm_consoles{name="a \"b\"\\\nc",kind="vnc"} 1`,
		`vmop_vm_problems{name="a \"b\"\\\nc"} 1`,
		`vmop_vm_pending_changes{name="a \"b\"\\\nc"} 1`,
		`vmop_process_resident_memory_bytes{name="a \"b\"\\\nc",process="qemu"} 1073741824`,
		`process_resident_memory_bytes{name="a \"b\"\\\nc"} 12582912`,
		`process_open_fds{name="a \"b\"\\\nc"} 11`,
		`go_goroutines{name="a \"b\"\\\nc"} 20`,
	} {
		require.Contains(t, text, line+"\n")
	}
	var family string
	for line := range strings.Lines(text) {
		if rest, found := strings.CutPrefix(line, "# HELP "); found {
			family = strings.Fields(rest)[0]
			require.Equal(t, 1, strings.Count(text, "# TYPE "+family+" "), "each family once")
			continue
		}
		require.True(t, strings.HasPrefix(line, family+"{") || strings.HasPrefix(line, "# TYPE "+family+" "), line)
	}
}

func TestAStoppedVMHasNoUptime(t *testing.T) {
	t.Parallel()
	s, err := status.Fold(status.Status{}, time.Now(), status.Entered{State: vmstatus.StateBooted}, status.Ended{})
	require.NoError(t, err)
	require.Zero(t, uptimeOf(s, time.Now().Add(time.Hour)))
}

func TestResidentMemory(t *testing.T) {
	t.Parallel()
	proc := fstest.MapFS{
		"1/status": {Data: []byte("Name:\tx\nVmHWM:\t  9 kB\nVmRSS:\t    12 kB\n")},
		"2/status": {Data: []byte("VmRSS:\tmuch\n")},
		"3/status": {Data: []byte("Name:\tkthread\n")},
	}
	require.Equal(t, int64(12<<10), residentBytes(proc, 1))
	for pid := 2; pid < 5; pid++ {
		require.Zero(t, residentBytes(proc, pid))
	}
}

func TestOpenDescriptors(t *testing.T) {
	t.Parallel()
	require.Zero(t, openDescriptors(fstest.MapFS{}, 7))
	before := openDescriptors(os.DirFS("/proc"), os.Getpid())
	require.Positive(t, before)
	var files []*os.File
	for range 100 { // more than parallel tests open or close
		file, err := os.Open(os.DevNull)
		require.NoError(t, err)
		files = append(files, file)
	}
	require.Greater(t, openDescriptors(os.DirFS("/proc"), os.Getpid()), before)
	for _, file := range files {
		require.NoError(t, file.Close())
	}
}
