package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/config"
	"vmop/test/invariants"
	"vmop/test/wait"
	"vmop/vmtypes"
)

// otherStandard returns an archive of the type standard with an additional line in its launch function.
func otherStandard(t *testing.T, line string) []byte {
	t.Helper()
	library, err := vmtypes.Open("")
	require.NoError(t, err)
	standard, err := library.Load(t.Context(), "standard")
	require.NoError(t, err)
	archive, err := standard.Archive()
	require.NoError(t, err)
	const launched = "return assemble(pc_parts(vm, host), parts)"
	require.Equal(t, 1, strings.Count(string(archive), launched))
	return []byte(strings.Replace(string(archive), launched,
		"return combine(assemble(pc_parts(vm, host), parts), "+line+")", 1))
}

// beginFrom is begin with an archive that the source has pinned, and additional arguments for the target.
func beginFrom(t *testing.T, archive []byte, receiveArgs ...string) *journey {
	t.Helper()
	j := newJourney(t, "standard", counterSection(t), receiveArgs...)
	data := filepath.Join(j.fromDir, "data")
	require.NoError(t, os.Mkdir(data, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(data, "vmtype.txtar"), archive, 0o600))
	return j.begins()
}

// movesUnless migrates the guest, or requires that the target refuses it for a reason.
func (j *journey) movesUnless(refused string) {
	j.t.Helper()
	if refused == "" {
		j.moves()
		wait.Until(j.t, func() bool { return runs(j.t, j.toDir) })
		return
	}
	out, err := j.migrate()
	require.Error(j.t, err)
	require.Contains(j.t, out, refused)
	require.Equal(j.t, 1, j.receiving.exit())
	require.True(j.t, runs(j.t, j.fromDir), "the guest stays")
}

// The owner of a source can't choose a program that the target runs, even if the target trusts the source.
func TestASourceChoosesNoProgramOfTheTarget(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"": nil, "trusted": {"--trust-source"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The program leaves a mark with the name of its data directory.
			marks := t.TempDir()
			j := beginFrom(t, otherStandard(t, `part(helpers = [process("x", "/bin/sh", `+
				`["-c", "echo > `+marks+`/$0; exec sleep 600", host.dataDir.replace("/", "_")], confined = False)])`), args...)
			mark := func(dir string) string {
				return filepath.Join(marks, strings.ReplaceAll(filepath.Join(dir, "data"), "/", "_"))
			}
			require.FileExists(t, mark(j.fromDir), "the program runs at the source")
			out, err := j.migrate()
			require.Error(t, err)
			require.Equal(t, 1, j.receiving.exit())
			require.NoFileExists(t, mark(j.toDir))
			require.NoFileExists(t, filepath.Join(j.toDir, "data", "vmtype.txtar"))
			for _, said := range []string{out, j.receiving.out.String()} {
				if args == nil {
					require.Contains(t, said, "the source's VM type standard is not the type of this vmrunner, and a VM type "+
						"chooses which programs run: on the target, use the version of vmrunner that first started the source, "+
						"or, if you trust the source, add --trust-source to vmrunner receive")
				} else {
					require.Contains(t, said, "confined = False of /bin/sh is not accepted from another runner")
				}
			}
			invariants.NothingLeft(t, j.toDir)
			require.True(t, runs(t, j.fromDir), "the guest stays")
		})
	}
}

// A trusted source's version of a VM type may give the guest other hardware. Each later start checks it again, because
// it may have recognized the migration and behaved well during it.
func TestATrustedSourceIsJudgedAgain(t *testing.T) {
	t.Parallel()
	const evil = `part(options = [option("-device", "usb-kbd", {"id": "more"})]), ` +
		`part(helpers = [process("x", "/bin/sh", ["-c", "exec sleep 600"])]) ` +
		`if host.exists(host.dataDir + "/later") else None`
	j := beginFrom(t, otherStandard(t, evil), "--trust-source")
	j.moves()
	wait.Until(t, func() bool { return runs(t, j.toDir) })
	kept, err := os.ReadFile(filepath.Join(j.toDir, "data", "vmtype.txtar"))
	require.NoError(t, err)
	require.True(t, vmtypes.IsReceived(kept))

	j.receiving.signal(syscall.SIGTERM)
	j.receiving.exit()
	again := booted(t, j.toDir)
	again.ends()
	require.NoError(t, os.WriteFile(filepath.Join(j.toDir, "data", "later"), nil, 0o600))
	last := start(t, j.toDir, nil)
	require.Equal(t, 1, last.exit())
	require.Contains(t, last.out.String(), "the VM type standard, which came from another runner, does what this side's own "+
		"type does not")
	require.Contains(t, last.out.String(), "it runs /bin/sh -c exec sleep 600")
}

// In a cluster, a guest moves from a pod with an older image of the runner without a flag. A guest that has escaped
// from QEMU can't enter the other pod through its VM type.
func TestAPodReceivesAnotherVersionOfItsType(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ line, refused string }{
		"an older one": {`part(options = [option("-device", "usb-kbd", {"id": "more"})])`, ""},
		"a hostile one": {
			`part(options = [option("-blockdev", None, {"driver": "file", "node-name": "x", "filename": "/etc/passwd", ` +
				`"read-only": True})])`,
			"reading /etc/passwd is not allowed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := beginFrom(t, otherStandard(t, c.line))
			j.receiving.signal(syscall.SIGTERM) // it is not a pod
			j.receiving.exit()
			p := newProgram(t, j.toDir, nil)
			p.cmd.Env = append(os.Environ(), config.ReceiveVariable+"=m-1", config.PodIPVariable+"=127.0.0.1",
				"TMPDIR="+j.toDir)
			p.launch()
			p.await(`waiting for a guest`)
			j.receiving = p
			j.movesUnless(c.refused)
		})
	}
}

// customType writes a folder with the type mine: the standard type with an additional part.
func customType(t *testing.T, launch string) string {
	t.Helper()
	dir := t.TempDir()
	text := "load(\"@vmtypes//standard.star\", standard = \"launch\")\n\n" +
		"def launch(vm, host):\n    return " + launch + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mine.star"), []byte(text), 0o600))
	return dir
}

// For a custom type, the target's version is used, or, from a trusted source, another version with the same effects.
func TestACustomTypeOfASource(t *testing.T) {
	t.Parallel()
	const plain = "standard(vm, host)"
	qemu, err := exec.LookPath("qemu-system-x86_64")
	require.NoError(t, err, "Debian package qemu-system-x86")
	other := filepath.Join(t.TempDir(), "qemu-system-x86_64")
	require.NoError(t, os.Symlink(qemu, other))
	for name, c := range map[string]struct {
		source, target string
		args           []string
		refused        string
	}{
		"the same": {plain, plain, nil, ""},
		"another": {
			"combine(standard(vm, host))", plain, nil, "the source's VM type mine is not the one in ",
		},
		"another of a trusted source": {"combine(standard(vm, host))", plain, []string{"--trust-source"}, ""},
		"another program": {
			`replace(standard(vm, host), executable = "` + other + `")`, plain,
			[]string{"--trust-source"},
			"QEMU: the program " + other + " is not in its list programs",
		},
		"a variable": {
			`combine(standard(vm, host), part(env = {"LD_BIND_NOW": "1"}))`, plain,
			[]string{"--trust-source"},
			"QEMU: the environment variable LD_BIND_NOW is not in its list environment",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"--vmtypes", customType(t, c.target)}, c.args...)
			j := newJourney(t, "mine", counterSection(t), args...)
			j.begins("--vmtypes", customType(t, c.source))
			j.movesUnless(c.refused)
		})
	}
}
