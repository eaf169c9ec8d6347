package launch

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/prepare"
	"vmop/test/folder"
	"vmop/vmtypes/plan"
)

const (
	stateBefore = prepare.SwtpmState
	stateNow    = plan.TPMFolder + "/" + prepare.SwtpmState
)

// withTPM is a VM whose swtpm works in its own folder, and has files in its data directory.
func withTPM(t *testing.T, files folder.Files) *prepare.VM {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, plan.TPMFolder), 0o700))
	folder.Fill(t, dir, files)
	return &prepare.VM{DataDir: dir, Plan: &plan.Plan{Helpers: []plan.Process{
		{Name: "swtpm", Role: plan.RoleTPM, Dir: filepath.Join(dir, plan.TPMFolder)},
	}}}
}

// The state of a TPM that is in the data directory, as the original system and earlier
// versions have it, is the newest. From then on a link is in its place, by which they
// find the state.
func TestTheStateOfATPMIsTakenOver(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		have folder.Files
		want string // "": none
	}{
		"of the original":              {folder.Files{stateBefore: "theirs"}, "theirs"},
		"after the way back":           {folder.Files{stateBefore: "newer", stateNow: "older"}, "newer"},
		"copied when the power failed": {folder.Files{stateBefore: "theirs", stateNow: "theirs"}, "theirs"},
		"half copied": {
			folder.Files{stateBefore: "theirs", "tpm/." + stateBefore + ".1": "th"}, "theirs",
		},
		"torn after the way back":          {folder.Files{stateBefore: "", stateNow: "older"}, "older"},
		"torn":                             {folder.Files{stateBefore: ""}, ""},
		"there, without the link to it":    {folder.Files{stateNow: "ours"}, "ours"},
		"none":                             {folder.Files{}, ""},
		"of other programs, which is left": {folder.Files{"tpm2-01.permall": "x"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vm := withTPM(t, tt.have)
			for range 2 { // the second time nothing is to be done
				l := &Launch{vm: vm, log: slog.New(slog.DiscardHandler)}
				require.NoError(t, l.findTPM())
				target, err := os.Readlink(filepath.Join(vm.DataDir, stateBefore))
				require.NoError(t, err)
				require.Equal(t, stateNow, target)
				text, err := os.ReadFile(filepath.Join(vm.DataDir, stateBefore))
				if tt.want == "" {
					require.ErrorIs(t, err, os.ErrNotExist)
					require.Equal(t, filepath.Join(vm.DataDir, stateNow), l.started.newTPM)
				} else {
					require.NoError(t, err)
					require.Equal(t, tt.want, string(text))
					require.Empty(t, l.started.newTPM)
				}
				entries, err := os.ReadDir(filepath.Join(vm.DataDir, plan.TPMFolder))
				require.NoError(t, err)
				require.LessOrEqual(t, len(entries), 1, "nothing is left half written")
			}
		})
	}
}

// What leads out of the data directory is not followed: swtpm could read it then.
func TestTheStateOfATPMIsNoLink(t *testing.T) {
	t.Parallel()
	vm := withTPM(t, folder.Files{"secret": "s"})
	require.NoError(t, os.Symlink("secret", filepath.Join(vm.DataDir, stateBefore)))
	l := &Launch{vm: vm, log: slog.New(slog.DiscardHandler)}
	require.ErrorContains(t, l.findTPM(), "is not a regular file")
	require.NoFileExists(t, filepath.Join(vm.DataDir, stateNow))

	// One that swtpm has made in its folder is replaced, and what it leads to stays.
	vm = withTPM(t, folder.Files{"secret": "s", stateBefore: "theirs"})
	require.NoError(t, os.Symlink("../secret", filepath.Join(vm.DataDir, stateNow)))
	l.vm = vm
	require.NoError(t, l.findTPM())
	for file, want := range map[string]string{"secret": "s", stateNow: "theirs"} {
		text, err := os.ReadFile(filepath.Join(vm.DataDir, file))
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}
}

// The TPM's state is that of the helper for it, if that has a folder: other helpers have folders, too.
func TestWhichHelperHasTheTPM(t *testing.T) {
	t.Parallel()
	shares := plan.Process{Role: "shares", Dir: "/data/shares"}
	for want, helpers := range map[string][]plan.Process{
		"": {shares, {Role: plan.RoleTPM}},
		filepath.Join("/tpm", prepare.SwtpmState): {shares, {Role: plan.RoleTPM, Dir: "/tpm"}},
	} {
		require.Equal(t, want, tpmState(&plan.Plan{Helpers: helpers}))
	}
}

// The state of a new TPM is synced, if there is one; whatever else goes wrong is an error.
func TestANewTPMIsSynced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder.Fill(t, dir, folder.Files{"state": "s"})
	for state, want := range map[string]string{
		"": "", "state": "", "absent": "", "state/x": "sync the state of the TPM",
	} {
		p := &Processes{}
		if state != "" {
			p.newTPM = filepath.Join(dir, state)
		}
		if err := p.Sync(); want == "" {
			require.NoError(t, err, state)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
}

// A state that power failures leave empty is removed, and a new TPM made; whatever else is there stays.
func TestAnEmptyStateOfATPMIsRemoved(t *testing.T) {
	t.Parallel()
	vm := withTPM(t, folder.Files{stateNow: ""})
	l := &Launch{vm: vm, log: slog.New(slog.DiscardHandler)}
	require.NoError(t, l.findTPM())
	require.NoFileExists(t, filepath.Join(vm.DataDir, stateNow))
	require.Equal(t, filepath.Join(vm.DataDir, stateNow), l.started.newTPM)

	vm.Plan.Helpers[0].Dir = filepath.Join(vm.DataDir, "elsewhere") // a TPM whose folder is not the runner's
	l = &Launch{vm: vm, log: slog.New(slog.DiscardHandler)}
	require.NoError(t, l.findTPM())
	require.Equal(t, filepath.Join(vm.DataDir, "elsewhere", prepare.SwtpmState), l.started.newTPM)
	folder.Fill(t, vm.DataDir, folder.Files{"elsewhere": "no folder"})
	require.ErrorContains(t, l.findTPM(), "look for the state of the TPM")
}
