package vmtypes_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmspec"
	"vmop/vmtypes"
)

// No form of a plan contains the password of an address; QEMU reads it from a file.
func TestPasswordsAreInNoPlan(t *testing.T) {
	t.Parallel()
	spec, host := windowsVM(vmtypes.Files{}, "")
	spec.Drives = []vmspec.Drive{
		{Type: vmspec.DriveIDECD, Bus: "ide", File: "https://me:canary@h/a.iso"},
		{Type: vmspec.DriveIDECD, Bus: "ide", File: "https://me@h/b.iso"},
		{Type: vmspec.DriveIDECD, Bus: "ide", File: "https://h/c.iso"},
	}
	windows, err := vmtypes.Source{}.Library().Load(t.Context(), "windows")
	require.NoError(t, err)
	p, err := windows.Launch(t.Context(), spec, host)
	require.NoError(t, err)
	text := p.Text()
	require.Contains(t, text, "file.url=https://h/a.iso,file.username=me,file.password-secret=password-of-drive0\n")
	require.Contains(t, text, "file.url=https://h/b.iso,file.username=me\n")
	require.Contains(t, text, "file.url=https://h/c.iso\n")
	require.Contains(t, text, "    -object secret,id=password-of-drive0,file=/run/vm/password-of-drive0\n")
	require.Equal(t, []vmtypes.Secret{{
		ID: "password-of-drive0", Path: "/run/vm/password-of-drive0", Value: "canary",
	}}, vmtypes.Secrets(spec, host.RuntimeDir))
	require.NotContains(t, text+p.Shell()+strings.Join(p.QEMU.Argv(), " "), "canary")
	require.Empty(t, p.Check())
}

// A type with its own password in an address is rejected, because no secret file contains this password.
func TestPasswordsOfATypeAreRefused(t *testing.T) {
	t.Parallel()
	spec, host := windowsVM(vmtypes.Files{}, "")
	spec.Options = nil
	source := vmtypes.Source{Modules: map[string]string{"own.star": `def launch(vm, host):
    """Adds a disk of its own."""
    return part(executable = "/usr/bin/qemu-system-x86_64", options = [
        option("-blockdev", "https", {"node-name": "own", "url": "https://me:canary@h/a.iso", "read-only": "on"}),
    ])
`}}
	own, err := source.Library().Load(t.Context(), "own")
	require.NoError(t, err)
	_, err = own.Launch(t.Context(), spec, host)
	require.ErrorContains(t, err, "-blockdev: everybody on the host sees the credential in url on the command line")
	require.NotContains(t, err.Error(), "canary")
}
