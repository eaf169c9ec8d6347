package launch

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/internal/yamlfile"
)

// A failed start has a one-line cause: a known cause, or otherwise QEMU's last line with the reason.
func TestACauseIsOneLine(t *testing.T) {
	t.Parallel()
	fault := yamlfile.Fault{File: "f", Line: 3, Path: "vm.kernel.image", Message: "does not exist", Hint: "want one"}
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("start: %w", yamlfile.Faults{fault}), "vm.kernel.image: does not exist (want one)"},
		{yamlfile.Faults{fault, fault, fault}, "vm.kernel.image: does not exist (want one) (and 2 more)"},
		{errors.New("open tap: no\nmore of it"), "open tap: no"},
		{&startError{Process: "qemu", Output: "x", Advice: "do this"}, "do this"},
		{&startError{Process: "qemu"}, "qemu ended while the VM was being started: exit status 0"},
		{
			&startError{Process: "qemu", Output: "qemu-system-x86_64: warning: host lacks x\n" +
				`qemu-system-x86_64: -blockdev {"a":{"b: c":1}}: Failed to get "write" lock` + "\nIs another process?"},
			`qemu ended: Failed to get "write" lock`,
		},
		{
			&startError{Process: "qemu", Output: "qemu-system-x86_64: -device foo,id=a: no such device\nswtpm ended, too: code 1"},
			"qemu ended: no such device",
		},
		{&startError{Process: "qemu", Output: "Segmentation fault"}, "qemu ended: Segmentation fault"},
	} {
		require.Equal(t, c.want, Cause(c.err))
	}
}
