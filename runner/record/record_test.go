package record

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/prepare"
)

// The type of a machine that runs is in a file beside its record, or in the record itself
// if an older runner made it.
func TestTheTypeOfAMachineThatRuns(t *testing.T) {
	t.Parallel()
	const vmType = "VM type mine.star\n\n-- mine.star --\n" +
		"def launch(vm, host):\n    \"\"\"As it was.\"\"\"\n    return part()\n"
	old, dir := Machine{VMType: vmType}, t.TempDir()
	p, err := old.pin(dir)
	require.NoError(t, err)
	require.Equal(t, vmType, string(p.Archive))

	_, err = new(Machine).pin(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, WriteType(&prepare.VM{RuntimeDir: dir, Pin: p}))
	for unpinned, kept := range map[bool]bool{true: false, false: true} {
		again, err := (&Machine{Unpinned: unpinned}).pin(dir)
		require.NoError(t, err)
		require.Equal(t, p.Archive, again.Archive)
		require.Equal(t, kept, again.Kept)
	}
}

// FuzzRecord reads anything as the record of a machine: it is a machine that can be made
// anew, with the plan that it had, or there is an error.
func FuzzRecord(f *testing.F) {
	const vmType = "VM type mine.star\n\n-- mine.star --\n" +
		"def launch(vm, host):\n    return part(executable = \"/bin/true\")\n"
	good, err := json.Marshal(Machine{
		Version: version, ConfigFile: "/c.yaml", DataDir: "/data", Config: `"/Runner": {vmType: mine, vm: {name: web}}`,
		UUID: "0fb220b0-d73a-4b14-8a00-deb295bee377", VMType: vmType, Machines: map[string]string{"q35": "pc-q35-7.2"},
	})
	require.NoError(f, err)
	f.Add(good)
	for _, text := range []string{
		"", "null", "[]", "{}", `{"version": 1e999}`, `{"qemu": {"pid": -1}}`, `{"held": {}, "helpers": [null, {}]}`,
		strings.Replace(string(good), "web", `\u001b\u0000`, 1), strings.Replace(string(good), "/data", "", 1),
		strings.Replace(string(good), "return part", "return [0] * (1 << 40) #", 1), string(good) + string(good),
		string(good[:len(good)/2]), strings.Repeat("[", 20000),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, prepare.RecordFile), text, 0o600))
		r, there, err := Read(dir)
		if err != nil {
			require.ErrorContains(t, err, dir)
			return
		}
		require.True(t, there)
		_ = r.CheckVersion(dir)
		vm, err := r.VM(t.Context(), dir)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		require.Equal(t, r.DataDir, vm.DataDir)
		r.DataDir = t.TempDir()
		require.NoError(t, r.Write(dir))
		again, _, err := Read(dir)
		require.NoError(t, err)
		same, err := again.VM(t.Context(), dir)
		require.NoError(t, err)
		require.Equal(t, vm.Spec, same.Spec)
	})
}

// A record of another version is refused: what it says may mean something else.
func TestCheckVersion(t *testing.T) {
	t.Parallel()
	require.NoError(t, Machine{Version: version}.CheckVersion("/run/vm"))
	for _, other := range []int{0, version + 1} {
		err := Machine{Version: other}.CheckVersion("/run/vm")
		require.ErrorContains(t, err, "the VM was started by another version of this program: /run/vm/")
	}
}

func TestNoVMIsRunningByAFileThatStartedNone(t *testing.T) {
	t.Parallel()
	require.Nil(t, RunningBy(t.Context(), filepath.Join(t.TempDir(), "config.yaml")))
}
