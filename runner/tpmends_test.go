package runner

import (
	"log/slog"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/internal/childprocess"
	"vmop/runner/launch"
	"vmop/runner/prepare"
	"vmop/vmtypes/plan"
)

// If the target's TPM process ends during the migration, the guest stays at the source.
func TestAGuestIsNotTakenWithoutItsTPM(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("true")
	require.NoError(t, err)
	p, err := childprocess.Start(childprocess.Spec{Name: "swtpm", Path: program}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	<-p.Done()
	swtpm := []plan.Process{{Name: "swtpm", Role: plan.RoleTPM}}
	vm := &prepare.VM{DataDir: t.TempDir(), Plan: &plan.Plan{Helpers: swtpm}}
	m := &run{vm: vm, processes: &launch.Processes{Helpers: []*childprocess.Process{p}}}
	require.EqualError(t, (&receiver{run: m}).writeRecords(), "the process of its TPM has ended")

	m.processes.Helpers = nil // it ended before this runner started
	require.EqualError(t, (&receiver{run: m}).writeRecords(), "the process of its TPM has ended")
	vm.Plan.Helpers = nil
	require.Nil(t, m.tpmEnds(), "the machine has no TPM that could end")
}
