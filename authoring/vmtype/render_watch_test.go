package vmtype_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// After each change of the VM or the type, render shows the changes of the plan. It also shows errors.
func TestRenderWatches(t *testing.T) {
	t.Parallel()
	dir, write := folderOfTypes(t)
	const module = "def launch(vm, host):\n    return part(executable = \"/bin/true\", options = [option(\"-name\", " +
		"vm.name), option(\"-n\", %)])\n"
	with := func(text string) string { return module[:len(module)-5] + text + module[len(module)-4:] }
	write("my.star", with("1"))
	write("vm.yaml", "\"/Runner\": {vmType: my, vm: {name: a}}\n")
	w := startWatching(t, dir, "render", "-f", "vm.yaml")
	require.Equal(t, []string{"type my", "qemu /bin/true", "    -name a", "    -n 1"}, w.until("    -n 1"))
	write("vm.yaml", "\"/Runner\": {vmType: my, vm: {name: b}}\n")
	w.until("??:??:?? changed: vm.yaml")
	require.Equal(t, []string{"  type my", "  qemu /bin/true", "-     -name a", "+     -name b"}, w.until("+*"))
	write("notes.star~", "irrelevant\n")
	write("my.star", with("1/0"))
	w.until("??:??:?? changed: my.star")
	w.until("*division by zero*")
	write("my.star", with("1"))
	w.until("??:??:?? changed: my.star")
	w.until("the plan is the same")
	write("my.star", with("2"))
	w.until("+     -n 2")
	w.ends()
}
