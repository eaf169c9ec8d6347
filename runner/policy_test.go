package runner_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmtypes/policy"
)

// limited returns a VM of the type wrapped, with a policy that allows images named *.iso in its folder.
func limited(t *testing.T) *vm {
	t.Helper()
	v := changeable(t, "currentCpus: 1", "drives: [{type: ide-cd, file: a.iso}]")
	text := strings.ReplaceAll(`directories: [DIR/**]
rules:
  - types: ["**/vmtypes", /**]
    flags: [stock]
    devices: [stock]
    backends: [stock]
    read: [stock, DIR/*.iso]
    write: [DIR/bin]
    programs: [stock, DIR/bin/*]
    options: [qemu, panic]
`, "DIR", v.dir)
	text = strings.Replace(text, `"**/vmtypes", `, "", 1)
	var err error
	v.policy, err = policy.Read("policy.yaml", []byte(text))
	require.NoError(t, err)
	return v
}

// Users can't bypass the policy by changing a medium of a running VM, or by options that make the type fail, so that
// the changes are unknown.
func TestPolicyHoldsWhileAVMRuns(t *testing.T) {
	t.Parallel()
	v := limited(t)
	v.runs()
	require.Equal(t, v.path("a.iso"), v.medium())
	const refused = "the configuration cannot be used; the previous configuration stays active"
	denied := func(want, vmType string, section ...string) {
		t.Helper()
		v.configure(vmType, nil, section...)
		v.log.await(t, v.ended, refused, "err", want)
		require.Equal(t, v.path("a.iso"), v.medium())
	}
	denied("reading /etc/passwd is not allowed", "wrapped", v.section("drives: [{type: ide-cd, file: /etc/passwd}]")...)
	other := v.section("drives: [{type: ide-cd, file: b.iso}]")[1:] // without the options
	denied("vm.options.watchdog is not in its list options", "wrapped",
		append(other, "options: {qemu: "+v.path("bin", "qemu")+", watchdog: reset}")...)
	denied("whether the policy for VM types allows it cannot be evaluated", "standard", other...)
	v.configure("wrapped", nil, v.section("currentCpus: 1", "drives: [{type: ide-cd, file: b.iso}]")...)
	eventually(t, v.path("b.iso"), v.medium)
	v.ends()
}

// With a policy, the runner puts its own sandbox option on QEMU's command line, before the arguments of the VM type.
func TestThePolicysSandboxIsTheRunners(t *testing.T) {
	t.Parallel()
	v := limited(t)
	v.runs()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.qemu()))
	require.NoError(t, err)
	require.Regexp(t, `Seccomp_filters:\s+2\n`, string(status), "the VM type's, and the runner's")
	v.ends()
}
