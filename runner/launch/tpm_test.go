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

// withTPM returns a VM with an swtpm in its own folder and with the files in its data directory.
func withTPM(t *testing.T, files folder.Files) *prepare.VM {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, plan.TPMFolder), 0o700))
	folder.Fill(t, dir, files)
	return &prepare.VM{DataDir: dir, Plan: &plan.Plan{Helpers: []plan.Process{
		{Name: "swtpm", Role: plan.RoleTPM, Dir: filepath.Join(dir, plan.TPMFolder)},
	}}}
}

// TPM state in the data directory, as left by the original system and earlier versions, is the newest and is moved. A
// link takes its place, so that they still find the state.
func TestTheStateOfATPMIsTakenOver(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		have folder.Files
		want string // "" means no state
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
			for range 2 { // the second run keeps everything
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

// A link that leads out of the data directory is not followed, because swtpm could then read its target.
func TestTheStateOfATPMIsNoLink(t *testing.T) {
	t.Parallel()
	vm := withTPM(t, folder.Files{"secret": "s"})
	require.NoError(t, os.Symlink("secret", filepath.Join(vm.DataDir, stateBefore)))
	l := &Launch{vm: vm, log: slog.New(slog.DiscardHandler)}
	require.ErrorContains(t, l.findTPM(), "is not a regular file")
	require.NoFileExists(t, filepath.Join(vm.DataDir, stateNow))

	// A link that swtpm has created in its folder is replaced, and its target stays.
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

// The TPM's state is in the folder of the TPM helper, not of other helpers.
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

// The state of a new TPM is synced if it exists. Any other failure is an error.
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

// An empty state, as left by a power failure, is removed so that a new TPM is created. Other files stay.
func TestAnEmptyStateOfATPMIsRemoved(t *testing.T) {
	t.Parallel()
	vm := withTPM(t, folder.Files{stateNow: ""})
	l := &Launch{vm: vm, log: slog.New(slog.DiscardHandler)}
	require.NoError(t, l.findTPM())
	require.NoFileExists(t, filepath.Join(vm.DataDir, stateNow))
	require.Equal(t, filepath.Join(vm.DataDir, stateNow), l.started.newTPM)

	vm.Plan.Helpers[0].Dir = filepath.Join(vm.DataDir, "elsewhere") // a TPM in a folder outside the runtime directory
	l = &Launch{vm: vm, log: slog.New(slog.DiscardHandler)}
	require.NoError(t, l.findTPM())
	require.Equal(t, filepath.Join(vm.DataDir, "elsewhere", prepare.SwtpmState), l.started.newTPM)
	folder.Fill(t, vm.DataDir, folder.Files{"elsewhere": "no folder"})
	require.ErrorContains(t, l.findTPM(), "look for the state of the TPM")
}
