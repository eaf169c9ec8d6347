package runner_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"vmop/runner/prepare"
	"vmop/test/guest"
	"vmop/test/wait"
)

// everything is a VM with one of each, which runs and is changed.
type everything struct {
	*vm
	tree any // its configuration
	plan string
	step int
}

func newEverything(t *testing.T) *everything {
	t.Helper()
	v := newVM(t, "standard")
	for _, name := range []string{"disk.img", "other.img", "a.iso", "b.iso"} {
		v.image(name, 1<<20)
	}
	v.write("display-password", "first")
	image := guest.Tiny(t)
	e := &everything{vm: v, tree: map[string]any{
		"dataDir": "data", "runtimeDir": "run", "vmType": "standard", "resetCounter": 1, "cloudInit": map[string]any{},
		"vm": map[string]any{
			"name": "test", "machineType": "pc-q35-7.2", "accelerator": "tcg", "firmware": "bios",
			"powerdownTimeout": 1,
			"kernel": map[string]any{
				"image": image.Kernel, "initrd": image.Initrd,
				"commandLine": guest.CommandLine,
			},
			"maximumCpus": 4, "currentCpus": 1, "sockets": 2, "coresPerDie": 2, "maximumRam": "256 MiB",
			"currentRam": "256 MiB",
			"network":    []any{map[string]any{"type": "user", "mac": "52:54:00:00:00:02"}},
			"drives":     []any{map[string]any{"file": "disk.img"}, map[string]any{"type": "ide-cd", "file": "a.iso"}},
			"display":    map[string]any{"vnc": map[string]any{}},
		},
	}}
	e.mutate(mutation{})
	return e
}

// mark is a value that is different in each configuration, and awaits a restart
// in each: it tells which configuration the list of changes belongs to.
const mark = "vm.rtcBase"

func marked(step int) string { return fmt.Sprintf("2026-01-01T00:%02d:%02d", step/60, step%60) }

// mutate writes the configuration with a mutation, in one step.
func (e *everything) mutate(m mutation) {
	e.t.Helper()
	tree := set(e.tree, mark, marked(e.step))
	for path, to := range m.also {
		tree = set(tree, path, to)
	}
	if m.path != "" {
		tree = set(tree, m.path, m.to)
	}
	text, err := yaml.Marshal(map[string]any{"/Runner": tree})
	require.NoError(e.t, err)
	e.write("new", strings.ReplaceAll(string(text), "PATH", e.dir))
	require.NoError(e.t, os.Rename(e.path("new"), e.path("config.yaml")))
}

// planned returns what a VM of the configuration would be started with.
func (e *everything) planned() string {
	e.t.Helper()
	prepared, err := prepare.Plan(e.t.Context(), e.options().Options)
	require.NoError(e.t, err)
	return strings.ReplaceAll(prepared.Plan.Text(), marked(e.step), "MARK")
}

// pending waits until the runner has found out which changes of the newest
// configuration await a restart; it returns their paths without the mark.
func (e *everything) pending(m mutation) (paths []string) {
	e.t.Helper()
	want := any(marked(e.step))
	if m.path == mark {
		want = m.to
	}
	wait.Until(e.t, func() bool {
		paths = nil
		known := false
		for _, c := range e.status().RestartAwaitingChanges {
			if c.Path == mark {
				known = c.DesiredValue == want
			} else {
				paths = append(paths, c.Path)
			}
		}
		return known
	}, "%s is not read", m.path)
	return paths
}

// check makes a mutation of the running VM and requires that it is either
// without effect, or made at once, or listed.
func (e *everything) check(m mutation) {
	e.t.Helper()
	e.step++
	e.mutate(m)
	if m.what == refused {
		wait.Until(e.t, func() bool {
			return strings.Contains(e.status().Configuration.Error, m.path)
		})
		return
	}
	paths := e.pending(m)
	require.Empty(e.t, e.status().Configuration.Error)
	for _, path := range paths {
		assert.True(e.t, m.touched(path), "%s awaits a restart after a change of %s", path, m.path)
	}
	switch m.what {
	case idle:
		assert.Empty(e.t, paths, m.path)
		assert.Equal(e.t, e.plan, e.planned())
	case live:
		assert.Empty(e.t, paths, m.path)
		wait.Until(e.t, func() bool { return m.seen(e.vm) }, m.path)
	case listed:
		if m.path != mark {
			assert.NotEmpty(e.t, paths, m.path)
		}
		// What is in these folders is not in the plan, nor what the kernel lets QEMU reach.
		if !slices.Contains([]string{"cloudInit", "dataDir", "nbdCertificates"}, m.path) {
			assert.NotEqual(e.t, e.plan, e.planned(), m.path)
		}
	}
}

// Whatever is changed in the configuration of a VM that runs: it changes
// nothing about the machine, or QEMU shows it, or it is listed.
func TestEveryFieldOfARunningVM(t *testing.T) {
	t.Parallel()
	leave := guest.TakePlace(t)
	e := newEverything(t)
	c := attach(e.vm)
	e.runs()
	c.await(`READY`)
	leave()
	e.plan = e.planned()
	for _, m := range mutations {
		e.check(m)
	}
	e.changesThePassword()
	// The last mutation has left no time for the guest to shut down.
	e.ends()
	require.Equal(t, "QMP quit", e.log.find("stopping")[0]["method"])
}

// changesThePassword: it is in a file of its own, and QMP never shows it.
func (e *everything) changesThePassword() {
	e.t.Helper()
	set := func() int { return len(e.log.find("QMP command", "command", "set_password")) }
	before := set()
	e.write("display-password", "second")
	eventually(e.t, before+1, set)
	e.step++
	require.NoError(e.t, os.Remove(e.path("display-password")))
	e.mutate(mutations[len(mutations)-1])
	wait.Until(e.t, func() bool {
		paths := e.pending(mutation{})
		return len(paths) == 1 && paths[0] == "display-password"
	})
}

// inserted returns the file in a CD drive.
func (v *vm) inserted(device string) string {
	var blocks []struct {
		QDev     string
		Inserted *struct{ File string }
	}
	v.qmp(&blocks, "query-block")
	for _, b := range blocks {
		if b.QDev == device && b.Inserted != nil {
			return b.Inserted.File
		}
	}
	return ""
}

// balloon returns the bytes that the balloon leaves to the guest.
func (v *vm) balloon() int64 {
	var info struct{ Actual int64 }
	v.qmp(&info, "query-balloon")
	return info.Actual
}

// running returns how many CPUs QEMU runs.
func (v *vm) running() int {
	var cpus []any
	v.qmp(&cpus, "query-cpus-fast")
	return len(cpus)
}
