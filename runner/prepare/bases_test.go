package prepare

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/config"
	"vmop/test/folder"
	"vmop/vmtypes/plan"
)

// qemuImg runs qemu-img.
func qemuImg(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "qemu-img", args...).CombinedOutput()
	require.NoError(t, err, "%s; it is in the Debian package qemu-utils", out)
}

// QEMU uses the bases that an image had at the VM's first start, even if the image later names others.
func TestBasesAreThoseOfTheFirstStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	folder.Fill(t, dir, folder.Files{"secret": "s"})
	require.NoError(t, os.Mkdir(at("data"), 0o700))
	require.NoError(t, os.Mkdir(at("repository"), 0o700))
	for _, name := range []string{"base.qcow2", "other.qcow2", "repository/golden.qcow2", "alone.qcow2"} {
		qemuImg(t, "create", "-q", "-f", "qcow2", at(name), "1M")
	}
	qemuImg(t, "create", "-q", "-f", "qcow2", "-b", at("base.qcow2"), "-F", "qcow2", at("disk.qcow2"))
	disk := func(name string) plan.Option {
		const options = "driver=qcow2,node-name=%s,file.driver=file,file.filename=%s"
		return plan.Option{Flag: "-blockdev", Value: fmt.Sprintf(options, name, at(name+".qcow2"))}
	}
	vm := &VM{
		DataDir: at("data"), Config: &config.Config{ImageRepository: at("repository")},
		Plan: &plan.Plan{QEMU: plan.Process{Name: "qemu", Executable: "/usr/bin/qemu", Args: []plan.Option{
			disk("disk"), disk("alone"), disk("absent"),
		}}},
	}
	mayRead := func(name string) bool { return vm.Confinement()[0].MayRead(at(name)) }
	require.True(t, mayRead("base.qcow2"), "before the first start, too")
	require.NoError(t, vm.KeepBases())
	require.NoError(t, vm.KeepBases(), "nothing has changed")
	kept := folder.Contents(t, at("data"))[basesFile]
	require.NotContains(t, kept, "absent", "it may be made yet")

	// A compromised QEMU can write image headers.
	qemuImg(t, "rebase", "-u", "-F", "raw", "-b", at("secret"), at("alone.qcow2"))
	qemuImg(t, "rebase", "-u", "-F", "qcow2", "-b", at("other.qcow2"), at("disk.qcow2"))
	require.True(t, mayRead("base.qcow2"))
	require.False(t, mayRead("secret"))
	require.False(t, mayRead("other.qcow2"))
	err := vm.KeepBases()
	require.ErrorContains(t, err, "the image "+at("alone.qcow2")+" names the backing file "+at("secret"))
	require.ErrorContains(t, err, "names the backing file "+at("other.qcow2"))
	require.ErrorContains(t, err, "remove "+at("data/"+basesFile)+" to start the VM")
	require.Equal(t, kept, folder.Contents(t, at("data"))[basesFile])

	// An overlay may be rebased onto an image of the repository, which all VMs can use, or lose its base.
	qemuImg(t, "rebase", "-u", "-F", "qcow2", "-b", at("repository/golden.qcow2"), at("disk.qcow2"))
	qemuImg(t, "rebase", "-u", "-b", "", at("alone.qcow2"))
	require.NoError(t, vm.KeepBases())
	require.True(t, mayRead("repository/golden.qcow2"))

	// The user can permit the bases that images name now.
	qemuImg(t, "rebase", "-u", "-F", "qcow2", "-b", at("other.qcow2"), at("disk.qcow2"))
	require.Error(t, vm.KeepBases())
	require.NoError(t, os.Remove(at("data/"+basesFile)))
	require.NoError(t, vm.KeepBases())
	require.True(t, mayRead("other.qcow2"))

	folder.Fill(t, at("data"), folder.Files{basesFile: "junk"})
	require.ErrorContains(t, vm.KeepBases(), "replace "+at("data/"+basesFile)+" with a backup")
	require.False(t, mayRead("other.qcow2"))
}
