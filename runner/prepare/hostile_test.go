package prepare

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/folder"
)

// aLimit matches the error of a start after its type has exceeded a limit. Which limit is reached first may depend on
// the machine.
const aLimit = `^VM type mine: (used more than 300 MB of memory|took more than 5 s of processor time|` +
	`is nested too deeply: the stack is full|mine\.star:\d+:\d+: took too (long|many steps))`

// hostileTypes returns types that use excessive resources.
func hostileTypes() map[string]string {
	launch := func(lines ...string) string {
		return "def launch(vm, host):\n    " + strings.Join(lines, "\n    ") + "\n"
	}
	return map[string]string{
		"memory":           launch("return 'a' * 1000000000"),
		"memory in a load": "x = 'a' * 1000000000\n" + launch("return part()"),
		"a list of lists":  launch("l = []", "for i in range(150000):", "    l = [l]", "return str(l)"),
		"endless lists":    launch("l = []", "for i in range(1 << 60):", "    l = [l, l]", "return l"),
		"an endless loop":  launch("for i in range(1 << 60):", "    pass"),
	}
}

// A hostile type fails a start, or the adoption of a machine, without using this process's resources.
func TestAHostileTypeMakesAStartFail(t *testing.T) {
	t.Parallel()
	for name, module := range hostileTypes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vm, types := hostileVM(t, module, false)
			require.Regexp(t, aLimit, vm.Complete(t.Context(), Options{VMTypes: types}, true).Error())
			require.Nil(t, vm.Plan)
			vm.Pin = &Pin{Archive: []byte(archiveOf(module))}
			require.Regexp(t, aLimit, vm.Again(t.Context()).Error(), "adoption")
		})
	}
	t.Cleanup(func() {
		var used syscall.Rusage
		require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
		require.Less(t, used.Maxrss<<10, int64(200e6), "memory of this process")
	})
}

// A kept type may be larger than a module in a folder, and therefore too deeply nested for the stack.
func TestAKeptTypeIsNestedTooDeeply(t *testing.T) {
	t.Parallel()
	vm, types := hostileVM(t, "x = "+strings.Repeat("1+", 10<<20)+"1\n", true)
	err := vm.Complete(t.Context(), Options{VMTypes: types}, false)
	require.ErrorContains(t, err, "pinned in "+filepath.Join(vm.DataDir, pinnedType)+": VM type mine: ")
	require.Regexp(t, "is nested too deeply|used more than 300 MB of memory|took", err.Error())
}

func archiveOf(module string) string { return "VM type mine.star\n\n-- mine.star --\n" + module }

// hostileVM returns a VM with a type in the folder types, or in the data directory if kept is set.
func hostileVM(t *testing.T, module string, kept bool) (vm *VM, types string) {
	t.Helper()
	dir := t.TempDir()
	types = filepath.Join(dir, "types")
	file := filepath.Join(dir, "vm.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "\"/Runner\":\n  dataDir: data\n  runtimeDir: run\n  vmType: mine\n"+
		"  vm:\n    name: test\n    maximumRam: 128 MiB\n    network: []\n"), 0o600))
	for _, sub := range []string{"types", "data"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, sub), 0o700))
	}
	if kept {
		folder.Fill(t, filepath.Join(dir, "data"), folder.Files{pinnedType: archiveOf(module)})
	} else {
		folder.Fill(t, types, folder.Files{"mine.star": module})
	}
	vm, err := Open(file)
	require.NoError(t, err)
	return vm, types
}
