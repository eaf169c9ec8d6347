package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// shapes returns what may exist instead of a file, by its error message.
func shapes() map[string]func(path string) error {
	return map[string]func(path string) error{
		"it is a named pipe, not a file": func(path string) error { return unix.Mkfifo(path, 0o600) },
		"is a directory":                 func(path string) error { return os.Mkdir(path, 0o700) },
		"it is a device, not a file":     func(path string) error { return os.Symlink("/dev/zero", path) },
		"the file has 3000000 bytes": func(path string) error {
			return os.WriteFile(path, []byte(strings.Repeat("#", 3_000_000)), 0o600)
		},
	}
}

// If something else exists instead of a file that is read, the program ends, and reports what it is.
func TestFault21NoFile(t *testing.T) {
	t.Parallel()
	tests := []struct {
		file    string
		run     bool
		instead map[string]string // of a shape's message
	}{
		{"config.yaml", false, nil},
		{"display-password", false, nil},
		{"password-expiry", false, nil},
		{"policy.yaml", false, nil},
		{"types/mine.star", false, map[string]string{"it is a device, not a file": "path escapes from parent"}},
		{"data/uuid.txt", false, nil},
		{"data/vmtype.txtar", false, map[string]string{"the file has 3000000 bytes": "not an archive of a VM type"}},
		{"data/machines.txt", false, nil},
		{"data/vars.kind", true, nil},
		{"template", true, map[string]string{"the file has 3000000 bytes": "QEMU-ABSENT"}},
		// These files have no effect if they can't be read.
		{"logging.properties", true, absentQEMU()},
		{"run/machine.json", true, absentQEMU()},
		{"run/runner.json", true, absentQEMU()},
		{"run/config.yaml", true, absentQEMU()},
		{"run/vmtype.txtar", true, absentQEMU()},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			t.Parallel()
			for want, make := range shapes() {
				dir := noFile(t, tt.file, make)
				verb := "plan"
				if tt.run {
					verb = "run"
				}
				cmd := exec.CommandContext(t.Context(), "vmrunner", verb, "-c", filepath.Join(dir, "config.yaml"),
					"--vmtypes", filepath.Join(dir, "types"), "--vmtypes-policy", filepath.Join(dir, "policy.yaml"))
				out, err := cmd.CombinedOutput()
				require.Error(t, err)
				if other := tt.instead[want]; other != "" {
					want = other
				}
				require.Contains(t, string(out), want, "%s as %s", tt.file, want)
			}
		})
	}
}

// absentQEMU returns the message that QEMU is missing for each shape, because no file prevents the start.
func absentQEMU() map[string]string {
	said := map[string]string{}
	for shape := range shapes() {
		said[shape] = "QEMU-ABSENT"
	}
	return said
}

// noFile returns the folder of a VM in which something else replaces a file.
func noFile(t *testing.T, file string, make func(string) error) string {
	t.Helper()
	dir := folder(t, "mine", "display: {vnc: {}}",
		"options: {qemu: /absent/QEMU-ABSENT, copy: {source: PATH/template, to: vars}}")
	for _, name := range []string{"types", "data", "run"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o700))
	}
	bare, err := os.ReadFile("../../runner/testdata/vmtypes/bare.star")
	require.NoError(t, err)
	for name, text := range map[string]string{
		"types/mine.star": string(bare), "template": "x", "display-password": "secret",
		"policy.yaml": "directories: [/**]\nrules: [{types: [/**], flags: ['-*'], devices: ['**'], backends: ['**'], " +
			"programs: [/**], write: [/**], options: ['*'], unsandboxed: true}]\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	if strings.HasSuffix(file, ".kind") {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "data", "vars"), []byte("mine"), 0o600))
	}
	require.NoError(t, os.RemoveAll(filepath.Join(dir, file)))
	require.NoError(t, make(filepath.Join(dir, file)), fmt.Sprint(file))
	return dir
}
