package inventory

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/config"
	"vmop/runner/prepare"
	"vmop/test/invariants"
	"vmop/test/program"
	"vmop/test/wait"
	"vmop/vmstatus"
)

// quick is a VM without requirements that ends immediately on request.
const quick = "accelerator: tcg\nfirmware: bios\nnetwork: []\npowerdownTimeout: 0\nmaximumRam: 128 MiB\n"

// here is a computer with only the test's VMs.
type here struct {
	*Inventory
	t   *testing.T
	dir string
}

// newHere returns a computer with folders below the test's folder. Its VMs end with the test.
func newHere(t *testing.T) *here {
	t.Helper()
	dir, err := os.MkdirTemp("", "i") // a short path for sockets
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, pids := range invariants.Processes(t, dir) {
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
			}
		}
		require.NoError(t, os.RemoveAll(dir))
	})
	place := func(system bool, folder string) Place {
		variables := map[string]string{
			"XDG_CONFIG_HOME": filepath.Dir(folder), "XDG_DATA_HOME": filepath.Join(dir, "data"),
			"XDG_RUNTIME_DIR": filepath.Join(dir, "run"), "HOME": dir,
		}
		p := Place{Folder: folder, System: system, Env: config.HostEnv()}
		p.Env.Getenv = func(name string) string { return variables[name] }
		p.Env.HomeDir, p.Env.UserName = dir, filepath.Base(dir) // hides the real user's VMs
		for name, value := range variables {
			p.Environment = append(p.Environment, name+"="+value)
		}
		return p
	}
	places := []Place{
		place(false, filepath.Join(dir, "user", "vmrunner")), place(true, filepath.Join(dir, "system", "vmrunner")),
	}
	return &here{New(Options{
		Env: places[0].Env, Places: places, Program: filepath.Join(dir, "vmrunner"),
		Prepare: prepare.Options{VMTypes: "../testdata/vmtypes"}, Log: slog.New(slog.DiscardHandler),
	}), t, dir}
}

// withProgram builds the program that starts VMs.
func (h *here) withProgram() *here {
	h.t.Helper()
	require.NoError(h.t, program.Build(h.t.Context(), h.opts.Program, "vmop/cmd/vmrunner"))
	types, err := filepath.Abs("../testdata/vmtypes")
	require.NoError(h.t, err)
	h.opts.Arguments = []string{"--vmtypes", types}
	return h
}

// text returns the configuration of a VM.
func text(name string, section ...string) []byte {
	lines := "name: " + name + "\n" + strings.Join(section, "\n")
	return []byte("\"/Runner\":\n  vm:\n    " + strings.ReplaceAll(strings.TrimSpace(lines), "\n", "\n    ") + "\n")
}

// write writes a file below the test's folder.
func (h *here) write(name string, content []byte) string {
	h.t.Helper()
	file := filepath.Join(h.dir, name)
	require.NoError(h.t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(h.t, os.WriteFile(file, content, 0o600))
	return file
}

func (h *here) find(name string) *VM {
	h.t.Helper()
	vm, err := h.Find(h.t.Context(), name)
	require.NoError(h.t, err)
	return vm
}

// stopped stops a VM and requires that it leaves no processes or files.
func (h *here) stopped(name string) {
	h.t.Helper()
	require.NoError(h.t, h.End(h.t.Context(), name, false))
	vm := h.find(name)
	require.Equal(h.t, vmstatus.StateStopped, vm.State)
	require.NoDirExists(h.t, vm.RuntimeDir)
}

// until reads lists until one matches.
func until(t *testing.T, lists <-chan []VM, wanted func([]VM) bool) {
	t.Helper()
	ctx, cancel := wait.Context(t.Context())
	defer cancel()
	var last []VM
	for {
		select {
		case vms, open := <-lists:
			require.True(t, open, "the watch has ended")
			if last = vms; wanted(vms) {
				return
			}
		case <-ctx.Done():
			require.FailNow(t, "no such list", "the last one: %+v", last)
		}
	}
}
