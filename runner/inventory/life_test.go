package inventory

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/internal/yamlfile"
	"vmop/runner/control"
	"vmop/runner/status"
	"vmop/vmstatus"
	"vmop/vmtypes"
)

func paths(list []status.Change) (all []string) {
	for _, c := range list {
		all = append(all, c.Path)
	}
	return all
}

// A VM is created, started, stopped and deleted by its name.
func TestLifeOfAVM(t *testing.T) {
	t.Parallel()
	h := newHere(t).withProgram()
	ctx := t.Context()
	first := text("web", quick)
	file, warnings, err := h.Create(ctx, "web", false, first, "")
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.Equal(t, filepath.Join(h.dir, "user/vmrunner/web.yaml"), file)
	require.Equal(t, vmstatus.StateStopped, h.find("web").State)
	require.ErrorIs(t, h.Stop(ctx, "web", false), control.ErrNotRunning)

	require.NoError(t, h.Start(ctx, "web"))
	vm := h.find("web")
	require.True(t, vm.State.Active(), vm.State)
	require.ErrorIs(t, h.Start(ctx, "web"), ErrRunning)
	require.FileExists(t, vm.LogFile())

	slower := strings.Replace(quick, "powerdownTimeout: 0", "powerdownTimeout: 1", 1)
	second := text("web", slower+"currentRam: 96 MiB\nuseTpm: true")
	review, err := h.Edit(ctx, "web", first, second)
	require.NoError(t, err)
	require.True(t, review.Running)
	require.ElementsMatch(t, []string{"vm.currentRam", "vm.powerdownTimeout"}, paths(review.Now))
	require.Equal(t, []string{"vm.useTpm"}, paths(review.Later))

	before := h.find("web").Status.Runner.PID
	require.NoError(t, h.Restart(ctx, "web", true))
	vm = h.find("web")
	require.NotEqual(t, before, vm.Status.Runner.PID)
	require.Equal(t, status.TPMWorks, vm.Status.TPM, "what awaited the restart is there")

	_, err = h.Delete(ctx, "web", DeleteOptions{})
	require.ErrorIs(t, err, ErrRunning)
	require.NoError(t, h.Stop(ctx, "web", true))
	require.Equal(t, vmstatus.StateStopped, h.find("web").State, "a forced stop waits for the end")
	disk := h.write("disk.img", nil)
	require.NoError(t, os.WriteFile(file, text("web", quick, "drives: [{file: "+disk+"}]"), 0o600))
	left, err := h.Delete(ctx, "web", DeleteOptions{Disks: true})
	require.NoError(t, err)
	require.Equal(t, []string{disk}, left)
	require.NoFileExists(t, file)
	require.NoDirExists(t, vm.DataDir)
	_, err = h.Find(ctx, "web")
	require.ErrorIs(t, err, ErrUnknown)
}

func TestForcedDeletionKeepsTheData(t *testing.T) {
	t.Parallel()
	h := newHere(t).withProgram()
	h.write("system/vmrunner/web/config.yaml", text("web", quick))
	require.NoError(t, h.Start(t.Context(), "web"))
	dir := h.find("web").DataDir
	left, err := h.Delete(t.Context(), "web", DeleteOptions{Force: true})
	require.NoError(t, err)
	require.Equal(t, []string{dir}, left)
	require.DirExists(t, dir)
	require.NoDirExists(t, filepath.Join(h.dir, "system/vmrunner/web"))
	require.NoDirExists(t, filepath.Join(h.dir, "run/vmrunner/web"))
}

// Deleting a VM keeps a data directory that the user has chosen, because it may contain other data.
func TestOwnDataDirectoryIsNotDeleted(t *testing.T) {
	t.Parallel()
	h := newHere(t)
	precious := h.write("precious/file", nil)
	h.write("user/vmrunner/web.yaml", []byte(strings.Replace(string(text("web", quick)), "  vm:",
		"  dataDir: "+filepath.Dir(precious)+"\n  vm:", 1)))
	left, err := h.Delete(t.Context(), "web", DeleteOptions{Disks: true})
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Dir(precious)}, left)
	require.FileExists(t, precious)
}

func TestStartThatFails(t *testing.T) {
	t.Parallel()
	h := newHere(t).withProgram()
	h.write("user/vmrunner/web.yaml", text("web", quick, "kernel: {image: /nowhere/vmlinuz}"))
	err := h.Start(t.Context(), "web")
	var failed *StartError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, `vm.kernel.image: "/nowhere/vmlinuz" does not exist`, failed.Cause)
	vm := h.find("web")
	require.Equal(t, StateFailed, vm.State)
	require.Equal(t, failed.Cause, vm.Problem, "the cause is known until the next start")
	log, err := os.ReadFile(vm.LogFile())
	require.NoError(t, err)
	require.Contains(t, string(log), "/nowhere/vmlinuz")

	h.write("user/vmrunner/web.yaml", text("web", "cpus: 1"))
	require.ErrorAs(t, h.Start(t.Context(), "web"), new(yamlfile.Faults))
}

// A restart is refused if the new configuration has errors, and the VM keeps running.
func TestRestartWithFaultsLeavesTheVMRunning(t *testing.T) {
	t.Parallel()
	h := newHere(t).withProgram()
	h.write("user/vmrunner/web.yaml", text("web", quick))
	require.NoError(t, h.Start(t.Context(), "web"))
	for _, section := range []string{"cpus: 1", "options: {unheard: 1}"} {
		h.write("user/vmrunner/web.yaml", text("web", quick, section))
		require.Error(t, h.Restart(t.Context(), "web", true))
		require.True(t, h.find("web").State.Active())
	}
	h.write("user/vmrunner/web.yaml", text("web", quick))
	h.stopped("web")
}

func TestCreateOverwritesNothing(t *testing.T) {
	t.Parallel()
	h := newHere(t)
	ctx := t.Context()
	file := h.write("system/vmrunner/web.yaml", []byte("{"))
	for _, system := range []bool{true, false} {
		_, _, err := h.Create(ctx, "web", system, text("web"), "")
		require.ErrorIs(t, err, ErrExists)
	}
	kept, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "{", string(kept))
	require.NoDirExists(t, filepath.Join(h.dir, "user"))

	for name, wrong := range map[string]string{"a": "name: b", "c": "name: c\n    maximumRm: 1"} {
		_, _, err = h.Create(ctx, name, false, []byte("\"/Runner\":\n  vm:\n    "+wrong+"\n"), "")
		require.ErrorAs(t, err, new(yamlfile.Faults), name)
	}
}

func TestEditIsChecked(t *testing.T) {
	t.Parallel()
	h := newHere(t)
	ctx := t.Context()
	before := text("web", quick)
	file := h.write("user/vmrunner/web.yaml", before)
	require.NoError(t, os.Chmod(file, 0o640))

	for name, wrong := range map[string][]byte{
		"content": text("web", "maximumRm: 1"), "options": text("web", quick, "options: {unheard: 1}"),
		"name": text("another"),
	} {
		_, err := h.Edit(ctx, "web", before, wrong)
		require.ErrorAs(t, err, new(yamlfile.Faults), name)
	}
	typed := strings.Replace(string(text("web")), "  vm:", "  vmType: nowhere\n  vm:", 1)
	_, err := h.Review(ctx, "web", []byte(typed))
	require.ErrorContains(t, err, "nowhere")
	require.NotErrorAs(t, err, new(*vmtypes.FaultsError))

	_, err = h.Edit(ctx, "web", []byte("what it was earlier"), text("web"))
	require.ErrorIs(t, err, ErrChanged)
	now, err := h.Text(ctx, "web")
	require.NoError(t, err)
	require.Equal(t, before, now)

	review, err := h.Edit(ctx, "web", before, text("web", "network: []"))
	require.NoError(t, err)
	require.False(t, review.Running)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode())
}
