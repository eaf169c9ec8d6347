package program_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/program"
	"vmop/test/tier"
)

// "make install" installs working programs, readable man pages, valid shell completions, and a valid systemd unit, all
// below PREFIX and DESTDIR.
func TestMakeInstall(t *testing.T) {
	tier.Deep(t)
	root, err := program.Root(t.Context())
	require.NoError(t, err)
	t.Chdir(root)
	programs, err := filepath.Glob("cmd/*")
	require.NoError(t, err)
	for _, folder := range programs {
		require.NoError(t, program.LookAt(t.Context(), "vmop/"+folder))
	}
	built, host := t.TempDir(), t.TempDir()
	run(t, "make", "--no-print-directory", "install", "VERSION=1.2.3-test", "PREFIX=/usr", "DESTDIR="+host,
		"UNITDIR=/etc/systemd/system", "BIN="+filepath.Join(built, "bin"), "MAN="+filepath.Join(built, "man"))
	modes := map[string]fs.FileMode{"usr/bin": 0o755, "usr/share": 0o644, "etc": 0o644}
	for below, mode := range modes {
		look := func(path string, e fs.DirEntry, err error) error {
			require.NoError(t, err)
			if info, err := e.Info(); !e.IsDir() {
				require.NoError(t, err)
				require.Equal(t, mode, info.Mode(), path)
			}
			return nil
		}
		require.NoError(t, filepath.WalkDir(filepath.Join(host, below), look))
	}
	for _, folder := range programs {
		name := filepath.Base(folder)
		file := filepath.Join(host, "usr/bin", name)
		if name == "vmtype" { // which becomes vmrunner
			require.Contains(t, run(t, filepath.Join(host, "usr/bin/vmrunner"), "vmtype", "list"), "standard")
			continue
		}
		require.Equal(t, name+" 1.2.3-test\n", run(t, file, "--version"))
		completion := filepath.Join(host, "usr/share/bash-completion/completions", name)
		require.FileExists(t, filepath.Join(host, "usr/share/man/man1", name+".1"))
		complete := run(t, "bash", "-c", `source "$1" && complete -p "$2"`, "bash", completion, name)
		require.Contains(t, complete, "__start_"+name)
	}
	require.FileExists(t, filepath.Join(host, "usr/bin/kubectl_complete-vmop"))
	t.Run("man pages", func(t *testing.T) { manPages(t, filepath.Join(host, "usr/share/man/man1")) })
	t.Run("unit", func(t *testing.T) { unit(t, host) })
}

// manPages requires that man pages have the usual sections, and that man reads them without warnings.
func manPages(t *testing.T, dir string) {
	t.Helper()
	for _, page := range []string{"vmrunner.1", "vmrunner-run.1", "vmmanager-run.1", "kubectl-vmop-create.1"} {
		cmd := exec.CommandContext(t.Context(), "groff", "-man", "-ww", "-Tutf8", "-P-bouc", filepath.Join(dir, page))
		var complaints strings.Builder
		cmd.Stderr = &complaints
		text, err := cmd.Output()
		require.NoError(t, err, complaints.String())
		require.Empty(t, complaints.String(), page)
		for _, section := range []string{"NAME", "SYNOPSIS", strings.ToUpper(strings.TrimSuffix(page, ".1")) + "(1)"} {
			require.Contains(t, string(text), section, page)
		}
	}
}

// unit requires that systemd accepts the unit instead of the host's units, and finds its program.
func unit(t *testing.T, host string) {
	t.Helper()
	const units = "/usr/lib/systemd/system"
	require.NoError(t, os.CopyFS(filepath.Join(host, units), os.DirFS(units)))
	kill, err := exec.LookPath("kill")
	require.NoError(t, err)
	run(t, "install", "-D", kill, filepath.Join(host, "bin/kill"))
	require.Empty(t, run(t, "systemd-analyze", "verify", "--man=no", "--root="+host, "vmrunner@test.service"))
}

// run returns a command's output on stdout and stderr.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	require.NoError(t, err, "%s %s\n%s", name, strings.Join(args, " "), out)
	return string(out)
}
