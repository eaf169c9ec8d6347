package childprocess_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"vmop/internal/childprocess"
	"vmop/internal/confine"
	"vmop/test/invariants"
	"vmop/test/wait"
)

// everywhere returns rules that let a process read and write all files.
func everywhere(capabilities ...string) *confine.Rules {
	return &confine.Rules{Paths: []confine.Path{{Name: "/", Access: confine.Write}}, Capabilities: capabilities}
}

// A process and its children have only the capabilities of their rules. This and other processes keep theirs.
func TestDroppedCapabilities(t *testing.T) {
	t.Parallel()
	ours := invariants.Capabilities(t, os.Getpid())
	require.NotZero(t, ours&(1<<unix.CAP_NET_ADMIN), "this test needs root")
	of := func(rules *confine.Rules) []string {
		spec := sh(`sed -n 's/^CapPrm:[[:space:]]*//p' /proc/$$/status /proc/self/status`)
		spec.Rules = rules
		p, log := start(t, spec)
		require.Zero(t, hasEnded(t, p), p.Tail())
		return log.lines("stdout")
	}
	left := fmt.Sprintf("%016x", uint64(1<<unix.CAP_DAC_OVERRIDE|1<<unix.CAP_IPC_LOCK))
	require.Equal(t, []string{left, left}, of(everywhere("ipc_lock", "dac_override")),
		"root's shell, and root's program that it starts")
	all := fmt.Sprintf("%016x", ours)
	require.Equal(t, []string{all, all}, of(nil))
	wait.Until(t, func() bool { // the discarded thread may take a moment to end
		text, err := exec.CommandContext(t.Context(), "sh", "-c", "sed -n 's/^CapPrm:[[:space:]]*//p' /proc/"+
			strconv.Itoa(os.Getpid())+"/task/*/status").Output()
		return err == nil && strings.Trim(strings.ReplaceAll(string(text), all, ""), "\n") == ""
	}, "no other thread has less")
}

func TestProgramThatIsNotThereUnderRules(t *testing.T) {
	t.Parallel()
	_, err := childprocess.Start(childprocess.Spec{Name: "test", Path: "/no/such/program", Rules: everywhere()},
		newLogbook().logger())
	require.ErrorIs(t, err, unix.ENOENT)
}

// Processes write no core dump, which would contain the guest's memory and the display's password.
func TestNoProcessLeavesACore(t *testing.T) {
	t.Parallel()
	for _, rules := range []*confine.Rules{nil, everywhere()} {
		spec := sh(`exec sleep 1000`)
		spec.Rules = rules
		p, _ := start(t, spec)
		var limit unix.Rlimit
		require.NoError(t, unix.Prlimit(p.Pid(), unix.RLIMIT_CORE, nil, &limit))
		require.Equal(t, unix.Rlimit{}, limit)
	}
}
