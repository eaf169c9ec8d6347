package runner_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/status"
	"vmop/test/folder"
	"vmop/test/guest"
	"vmop/test/invariants"
	"vmop/test/tier"
	"vmop/vmstatus"
)

// Rows of the fault matrix about the configuration of a running VM.

func TestFault21TheConfigurationBecomesUnusable(t *testing.T) {
	t.Parallel()
	v := newVM(t, "bare", "powerdownTimeout: 0")
	good := v.read("config.yaml")
	v.runs()
	pid := invariants.OneQEMU(t, v.dir)
	argv := arguments(pid)
	tests := []struct{ what, text, where, why string }{
		{"truncated", `"/Runner": {vm: {name: "te`, ":1:1: ", "the quotes are not closed"},
		{"empty", "", ":1:1: ", "the file is empty"},
		{"no YAML", "\"/Runner\":\n\tvm: {}\n", ":2:1: ", "a tab in the indentation"},
		{
			"a key twice", "\"/Runner\":\n  vm:\n    name: test\n    name: test\n", ":4:5: ",
			"vm.name: the key is here twice (first on line 3)",
		},
		{
			"a wrong type", "\"/Runner\":\n  vm:\n    name: test\n    maximumCpus: many\n", ":4:18: ",
			`vm.maximumCpus: must be a whole number, not the text "many"`,
		},
		{"a list", "- \"/Runner\"\n", ":1:1: ", "must be a mapping"},
		{"binary", "\x00\x01\x02", ":1:1: ", "the character U+0000"},
		{"too large", good + strings.Repeat("# comment\n", 200_000), ":1:1: ", "the maximum is 1 MiB"},
		{"a bomb", "/Runner:\n  vm:\n    name: test\n    options:\n      a: &a [x, x, x, x, x, x, x, x, x]\n" +
			yamlBomb(), ":9:34: ", "aliases stand for more than 100000 values"},
		{
			"another VM", strings.ReplaceAll(good, "name: test", "name: other"), ":6:11: ",
			"vm.name: is the VM's identity",
		},
	}
	generation := int64(1)
	for _, tt := range tests {
		v.log.forget()
		v.replace("config.yaml", tt.text)
		r := v.log.await(t, v.ended, "the configuration cannot be used; the previous configuration stays active")
		text := fmt.Sprint(r["err"])
		require.Contains(t, text, tt.where, tt.what)
		require.Contains(t, text, tt.why, tt.what)
		v.lives(pid)
		generation++
		s := v.becomes("known of as "+tt.what, func(s status.Status) bool {
			return s.Configuration.Generation == generation
		})
		want := status.Configuration{Generation: generation, Applied: 1, Compared: 1, Error: text}
		require.Equal(t, want, s.Configuration,
			tt.what)
		require.Equal(t, "False ConfigInvalid", v.condition(vmstatus.ConditionConfigApplied), tt.what)
		require.Equal(t, text, s.Condition(vmstatus.ConditionConfigApplied).Message, tt.what)
	}
	v.log.forget()
	v.replace("config.yaml", good)
	v.log.await(t, v.ended, "configuration read")
	v.holds(vmstatus.ConditionConfigApplied, "True Applied")
	require.Equal(t, argv, arguments(pid))
	v.lives(pid)
	v.ends()
}

// replace replaces a file in one step.
func (v *vm) replace(name, text string) {
	v.t.Helper()
	v.write(name+".new", text)
	require.NoError(v.t, os.Rename(v.path(name+".new"), v.path(name)))
}

// yamlBomb returns lines of YAML. Each line multiplies the size by nine.
func yamlBomb() string {
	var s strings.Builder
	for name := 'b'; name <= 'i'; name++ {
		fmt.Fprintf(&s, "      %c: &%c [%s]\n", name, name,
			strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c, ", name-1), 9), ", "))
	}
	return s.String()
}

func TestFault23TooMuchIsTaken(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	guest.TakePlace(t)
	base := append(kernel(t, ""), "network: []", "maximumCpus: 4", "powerdownTimeout: 120")
	section := func(more ...string) []string { return append(append([]string{}, base...), more...) }
	v := newVM(t, "standard", section("currentCpus: 2")...)
	c := attach(v)
	v.runs()
	c.Await(`READY`)
	pid := invariants.OneQEMU(t, v.dir)

	v.configure("standard", nil, section("currentCpus: 5")...)
	v.log.await(t, v.ended, "the configuration cannot be used; the previous configuration stays active", "err", "vm.currentCpus")
	v.holds(vmstatus.ConditionConfigApplied, "False ConfigInvalid")
	require.Equal(t, 2, v.status().CPUs)

	// The guest uses about 40 MiB. It keeps the memory that it needs, and survives.
	v.configure("standard", nil, section("currentCpus: 2", "currentRam: 1 MiB")...)
	s := v.becomes("less memory", func(s status.Status) bool { return s.RAM < 128<<20 })
	require.Greater(t, s.RAM, int64(1<<20))
	v.lives(pid)

	// Change one value at a time: Linux may panic when a CPU is plugged while it has no free memory.
	v.configure("standard", nil, section("currentCpus: 2", "currentRam: 256 MiB")...)
	v.becomes("all of the memory", func(s status.Status) bool { return s.RAM == 256<<20 })
	v.configure("standard", nil, section("currentCpus: 3", "currentRam: 256 MiB")...)
	v.becomes("one more CPU", func(s status.Status) bool {
		return s.RAM == 256<<20 && s.CPUs == 3 && s.Condition(vmstatus.ConditionConfigApplied).Status == vmstatus.True
	})
	c.Type("ping")
	c.Await(`pong`)

	// QEMU can't unplug a CPU with TCG, and the guest may refuse. This is reported, and CPUs can still be added.
	v.configure("standard", nil, section("currentCpus: 1")...)
	s = v.becomes("a problem", func(s status.Status) bool {
		return s.Condition(vmstatus.ConditionConfigApplied).Reason == vmstatus.ReasonNotPossible
	})
	require.Contains(t, s.Condition(vmstatus.ConditionConfigApplied).Message, "vm.currentCpus")
	v.configure("standard", nil, section("currentCpus: 4")...)
	v.becomes("four CPUs", func(s status.Status) bool {
		return s.CPUs == 4 && s.Condition(vmstatus.ConditionConfigApplied).Status == vmstatus.True
	})
	v.lives(pid)
	c.Type("poweroff")
	outcome, err := v.wait()
	require.NoError(t, err)
	require.Zero(t, outcome.ExitCode())
	v.nothingLeft()
}

func TestFault24WhatCannotChange(t *testing.T) {
	t.Parallel()
	v := newVM(t, "standard")
	section := func(more ...string) []string {
		return append([]string{"accelerator: tcg", "firmware: bios", "network: []", "powerdownTimeout: 0"}, more...)
	}
	v.configure("standard", nil, section("maximumRam: 256 MiB")...)
	v.runs()
	pid := invariants.OneQEMU(t, v.dir)
	argv := arguments(pid)
	v.configure("standard", nil, section("maximumRam: 512 MiB", "useTpm: true")...)
	s := v.becomes("a restart is required", func(s status.Status) bool {
		return s.Condition(vmstatus.ConditionRestartRequired).Status == vmstatus.True
	})
	require.Equal(t, vmstatus.ReasonChangesPending, s.Condition(vmstatus.ConditionRestartRequired).Reason)
	paths := map[string]string{}
	for _, change := range s.RestartAwaitingChanges {
		paths[change.Path] = fmt.Sprintf("%v %v", change.CurrentValue, change.DesiredValue)
	}
	require.Contains(t, paths, "vm.maximumRam")
	require.Contains(t, paths, "vm.useTpm")
	v.lives(pid)
	require.Equal(t, argv, arguments(pid))
	require.NotContains(t, v.processes(), "swtpm")

	v.configure("standard", nil, section("maximumRam: 256 MiB")...)
	v.becomes("no restart is required", func(s status.Status) bool {
		return s.Condition(vmstatus.ConditionRestartRequired).Status == vmstatus.False
	})
	v.ends()
}

// If something else replaces the configuration or a file next to it, the runner does not block. A VM with a hanging
// file system can be stopped.
func TestFault21TheConfigurationIsNoFile(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	v := newVM(t, "bare", "powerdownTimeout: 0")
	good := v.read("config.yaml")
	v.runs()
	pid := invariants.OneQEMU(t, v.dir)
	shapes := []struct {
		why  string
		make func(string) error
	}{
		{"it is a named pipe, not a file", func(path string) error { return syscall.Mkfifo(path, 0o600) }},
		{"is a directory", func(path string) error { return os.Mkdir(path, 0o700) }},
		{"it is a device, not a file", func(path string) error { return os.Symlink("/dev/zero", path) }},
	}
	for _, file := range []string{"config.yaml", "display-password"} {
		for _, shape := range shapes {
			v.log.forget()
			require.NoError(t, os.RemoveAll(v.path(file)))
			require.NoError(t, shape.make(v.path(file)))
			applied := func(s status.Status) string { return s.Configuration.Error }
			v.becomes(file+": "+shape.why, func(s status.Status) bool {
				return strings.Contains(applied(s), shape.why)
			})
			v.lives(pid)
			require.NoError(t, os.RemoveAll(v.path(file)))
			v.write("config.yaml", good)
			v.becomes(file+" is well", func(s status.Status) bool { return applied(s) == "" })
		}
	}
	hung := t.TempDir()
	folder.Hang(t, hung)
	require.NoError(t, os.Remove(v.path("config.yaml")))
	require.NoError(t, os.Symlink(filepath.Join(hung, "config.yaml"), v.path("config.yaml")))
	v.becomes("the file system hangs", func(s status.Status) bool {
		return strings.Contains(s.Configuration.Error, "its file system does not answer within 10s")
	})
	v.lives(pid)
	v.ends()
}
