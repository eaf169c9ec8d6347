package process_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"vmop/process"
	"vmop/test/invariants"
)

// A process that may not administer the network can't, nor what it starts. Ours and
// others still can.
func TestDroppedCapabilities(t *testing.T) {
	t.Parallel()
	ours, network := invariants.Capabilities(t, os.Getpid()), uint64(1<<unix.CAP_NET_ADMIN|1<<unix.CAP_NET_RAW)
	require.NotZero(t, ours&network, "this test needs root")
	of := func(drop ...int) []string {
		spec := sh(`sed -n 's/^CapPrm:[[:space:]]*//p' /proc/$$/status /proc/self/status`)
		spec.Drop = drop
		p, log := start(t, spec)
		require.Zero(t, ended(t, p))
		return log.lines("stdout")
	}
	less := fmt.Sprintf("%016x", ours&^network)
	require.Equal(t, []string{less, less}, of(unix.CAP_NET_ADMIN, unix.CAP_NET_RAW),
		"root's shell, and root's program that it starts")
	all := fmt.Sprintf("%016x", ours)
	require.Equal(t, []string{all, all}, of())
	require.Eventually(t, func() bool { // the lost thread may take a moment to end
		text, err := exec.CommandContext(t.Context(), "sh", "-c", "sed -n 's/^CapPrm:[[:space:]]*//p' /proc/"+
			strconv.Itoa(os.Getpid())+"/task/*/status").Output()
		return err == nil && strings.Trim(strings.ReplaceAll(string(text), all, ""), "\n") == ""
	}, patience, time.Millisecond, "no other thread has less")
}

func TestProgramThatIsNotThereWithDroppedCapabilities(t *testing.T) {
	t.Parallel()
	_, err := process.Start(process.Spec{Name: "test", Path: "/no/such/program", Drop: []int{unix.CAP_NET_ADMIN}},
		newLogbook().logger())
	require.ErrorIs(t, err, unix.ENOENT)
}
