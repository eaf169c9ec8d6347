package launch

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/launch/cleanup"
	"vmop/runner/prepare"
	"vmop/test/folder"
	"vmop/vmtypes/plan"
)

const stateArriving = plan.TPMFolder + ".arriving/" + prepare.SwtpmState

// read returns a file of a VM's data directory, or "" if it doesn't exist.
func read(t *testing.T, vm *prepare.VM, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(vm.DataDir, file))
	if err != nil {
		require.ErrorIs(t, err, os.ErrNotExist)
	}
	return string(text)
}

// The TPM state of an arriving guest is kept next to the existing state until the guest has arrived.
func TestTheTPMOfAGuestThatComes(t *testing.T) {
	t.Parallel()
	for name, have := range map[string]folder.Files{
		"to a new folder":                   {},
		"where its older state is":          {stateNow: "older"},
		"where an earlier version's is":     {stateBefore: "older"},
		"after a runner that was killed":    {stateNow: "older", stateArriving: "half"},
		"after one that was killed at once": {stateArriving: "half"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vm := withTPM(t, have)
			own := vm.Plan.Helpers[0].Dir
			undo := cleanup.New(slog.New(slog.DiscardHandler))
			l := &Launch{vm: vm, undo: undo, log: slog.New(slog.DiscardHandler), Incoming: true}
			require.NoError(t, l.findTPM())
			arriving := filepath.Join(vm.DataDir, stateArriving)
			require.Equal(t, filepath.Dir(arriving), vm.Plan.Helpers[0].Dir)
			require.Equal(t, arriving, l.started.newTPM, "what is synced before the guest is resumed")
			require.NoFileExists(t, arriving)
			folder.Fill(t, vm.DataDir, folder.Files{stateArriving: "new"})
			require.Equal(t, have[stateNow], read(t, vm, stateNow), "it is not this side's yet")

			require.NoError(t, l.AcceptTPM())
			require.Equal(t, own, vm.Plan.Helpers[0].Dir)
			require.NoError(t, undo.Run())
			require.NoDirExists(t, filepath.Dir(arriving))
			require.Equal(t, "new", read(t, vm, stateNow))
			l = &Launch{vm: vm, log: slog.New(slog.DiscardHandler)}
			require.NoError(t, l.findTPM())
			require.Equal(t, "new", read(t, vm, stateNow))
			require.Empty(t, l.started.newTPM)
			require.NoError(t, AcceptTPM(vm.DataDir))
			require.Equal(t, "new", read(t, vm, stateNow), "the next runner does it again")
		})
	}
}

// A guest that fails to arrive leaves no TPM state, and the existing state is kept.
func TestTheTPMOfAGuestThatDoesNotCome(t *testing.T) {
	t.Parallel()
	vm := withTPM(t, folder.Files{stateNow: "older"})
	undo := cleanup.New(slog.New(slog.DiscardHandler))
	l := &Launch{vm: vm, undo: undo, log: slog.New(slog.DiscardHandler), Incoming: true}
	require.NoError(t, l.findTPM())
	folder.Fill(t, vm.DataDir, folder.Files{stateArriving: "new"})
	require.NoError(t, undo.Run())
	require.NoDirExists(t, filepath.Join(vm.DataDir, plan.TPMFolder+".arriving"))
	require.Equal(t, "older", read(t, vm, stateNow))
}

// A data directory has TPM state only if a file of it, in either place, is not empty.
func TestTheStateOfATPMIsFound(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		have folder.Files
		want string
	}{
		{folder.Files{}, ""},
		{folder.Files{stateNow: ""}, ""},
		{folder.Files{stateNow: "ours"}, stateNow},
		{folder.Files{stateBefore: "theirs"}, stateBefore},
		{folder.Files{"tpm/.lock": "", "tpm/tpm-00.permall": "of a TPM 1.2"}, "tpm/tpm-00.permall"},
	} {
		vm := withTPM(t, tt.have)
		got, err := TPMState(vm)
		require.NoError(t, err)
		if tt.want != "" {
			tt.want = filepath.Join(vm.DataDir, tt.want)
		}
		require.Equal(t, tt.want, got)
		vm.Plan.Helpers = nil
		got, err = TPMState(vm)
		require.NoError(t, err)
		require.Empty(t, got, "the plan has no TPM")
	}
}
