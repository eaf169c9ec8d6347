package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/program"
	"vmop/test/tier"
)

// Krew installs the archive that tools/scripts/plugins creates, and the program prints its version. The same commit
// creates the same archive.
func TestKrewInstalls(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	const script, module = "../../tools/scripts/plugins", "../../tools/krew"
	for _, name := range []string{script, "../../tools/scripts/archive", module} {
		require.NoError(t, program.LookInto(name))
	}
	require.NoError(t, program.LookAt(t.Context(), "vmop/cmd/kubectl-vmop"))
	dir := t.TempDir()
	run := func(cmd *exec.Cmd, env ...string) string {
		t.Helper()
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	krew := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "krew"),
		"sigs.k8s.io/krew/cmd/krew")
	krew.Dir = module
	run(krew, "CGO_ENABLED=0", "GOWORK=off")

	archive := "kubectl-vmop_1.2.3_" + runtime.GOOS + "_" + runtime.GOARCH + ".tar.gz"
	read := func(out string) []byte {
		run(exec.CommandContext(t.Context(), script, "v1.2.3", out, "https://example.org/v1.2.3"),
			"PLATFORMS="+runtime.GOOS+"/"+runtime.GOARCH)
		text, err := os.ReadFile(filepath.Join(out, archive))
		require.NoError(t, err)
		return text
	}
	first, again := read(filepath.Join(dir, "a")), read(filepath.Join(dir, "b"))
	require.Equal(t, first, again)
	run(exec.CommandContext(t.Context(), filepath.Join(dir, "krew"), "install",
		"--manifest="+filepath.Join(dir, "a/vmop.yaml"), "--archive="+filepath.Join(dir, "b", archive)),
		"KREW_ROOT="+filepath.Join(dir, "root"))
	said := run(exec.CommandContext(t.Context(), filepath.Join(dir, "root/bin/kubectl-vmop"), "--version"))
	require.Equal(t, "kubectl-vmop v1.2.3\n", said)
}

// Release notes contain the changelog of a version. Without a changelog section there is no release.
func TestReleaseNotes(t *testing.T) {
	t.Parallel()
	const script = "../../tools/scripts/release-notes"
	require.NoError(t, program.LookInto(script))
	changes := filepath.Join(t.TempDir(), "CHANGELOG.md")
	require.NoError(t, os.WriteFile(changes, []byte("# Changes\n\n## v1.2.3 (2026-11-26)\n\n- new\n\n### Pages\n\n- newer\n\n"+
		"## v1.2.2\n\n- old\n"), 0o600))
	notes := func(version string) (string, error) {
		cmd := exec.CommandContext(t.Context(), script, version)
		cmd.Env = append(os.Environ(), "CHANGELOG="+changes)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	said, err := notes("v1.2.3")
	require.NoError(t, err)
	require.Equal(t, "\n- new\n\n### Pages\n\n- newer\n\n", said)
	said, err = notes("v1.2")
	require.Error(t, err)
	require.Contains(t, said, `CHANGELOG.md has no heading "## v1.2"`)
}
