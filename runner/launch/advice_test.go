package launch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Each version's passt messages result in advice. (cmd/vmrunner has a test with a real passt.)
func TestAdviceOnPasst(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"Couldn't create user namespace: Operation not permitted":           "use a network of the type user",
		"Failed to sandbox process, exiting":                                "use a network of the type user",
		"Failed to bind any port for '-t 127.0.0.1/2222:22', exiting":       "another program has the port 2222 of the host",
		"Failed to bind any port for '--tcp-ports 10.0.0.1/80:80', exiting": "another program has the port 80 of the host",
		"External interface not usable":                                     "the address of this host's default route",
	} {
		require.Contains(t, adviceFor(vmWith(""), said, nil), want)
	}
}

// QEMU's messages result in advice when KVM is missing, not permitted, or unusable on this CPU.
func TestAdviceOnKVM(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"Could not access KVM kernel module: Permission denied\nqemu-system-x86_64: failed to initialize kvm: Permission " +
			"denied": "vm.accelerator: this user may not use /dev/kvm: add the user to the group kvm (usermod -aG kvm USER, " +
			"then log in again), or set auto or tcg",
		"Could not access KVM kernel module: No such file or directory": "vm.accelerator: there is no /dev/kvm here: load " +
			"the kernel's module kvm_intel or kvm_amd, or set auto or tcg",
		"error: failed to set MSR 0x10a to 0x69\nkvm_buf_set_msrs: Assertion": "vm.accelerator: the KVM of this host can't " +
			"run such a CPU: set tcg, or another vm.cpuModel",
		"something else": "",
	} {
		require.Equal(t, want, adviceFor(vmWith(""), said, nil))
	}
}
