// Package apparmor_test checks the AppArmor profile that packages install.
package apparmor_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// load runs the program as a package does, with a root that contains the given folders.
func load(t *testing.T, root string, arguments ...string) {
	t.Helper()
	shipped := filepath.Join(root, "usr/share/vmop")
	require.NoError(t, os.MkdirAll(shipped, 0o755))
	for from, to := range map[string]string{"vmrunner": "apparmor", "load": "load-apparmor"} {
		text, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(shipped, to), text, 0o644))
	}
	words := append([]string{filepath.Join(shipped, "load-apparmor")}, arguments...)
	cmd := exec.CommandContext(t.Context(), "sh", words...)
	cmd.Env = append(os.Environ(), "ROOT="+root)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// The profile is installed only if AppArmor supports rules about user namespaces. The administrator's own profile is
// kept.
func TestTheProfileIsInstalledWhereItIsUnderstood(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	profile := filepath.Join(root, "etc/apparmor.d/vmrunner")
	load(t, root)
	require.NoFileExists(t, profile, "without AppArmor")
	require.NoError(t, os.MkdirAll(filepath.Join(root, "etc/apparmor.d/abi"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "etc/apparmor.d/abi/3.0"), nil, 0o644))
	load(t, root)
	require.NoFileExists(t, profile, "with Debian 12's AppArmor")
	require.NoError(t, os.WriteFile(filepath.Join(root, "etc/apparmor.d/abi/4.0"), nil, 0o644))
	load(t, root)
	require.FileExists(t, profile, "with Ubuntu 24.04's AppArmor")
	load(t, root, "remove")
	require.NoFileExists(t, profile)
	require.NoError(t, os.WriteFile(profile, []byte("own"), 0o644))
	load(t, root)
	load(t, root, "remove")
	text, err := os.ReadFile(profile)
	require.NoError(t, err)
	require.Equal(t, "own", string(text))
}

// The profile has the form that Ubuntu documents for programs that need user namespaces: it permits everything, for
// both places where vmrunner is installed.
func TestTheProfilePermitsUserNamespaces(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("vmrunner")
	require.NoError(t, err)
	require.Regexp(t, `(?m)^abi <abi/4\.0>,\n`, string(text))
	require.Contains(t, string(text), "profile vmrunner /{usr,usr/local}/bin/vmrunner flags=(unconfined) {\n  userns,\n")
}
