package vmtypes_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmspec"
	"vmop/vmtypes"
)

// No form of a plan has the password in an address: QEMU reads it from a file.
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
