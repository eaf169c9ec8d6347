package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmtypes/policy"
)

// Errors distinguish requests in the configuration from actions of the type.
func TestWhatTheConfigurationWants(t *testing.T) {
	t.Parallel()
	p := read(t, strict)
	require.NoError(t, p.CheckDirectories("/data", "/run/vm"))
	require.NoError(t, p.CheckDirectories("/data", ""), "there is no other yet")
	require.NoError(t, (*policy.Policy)(nil).CheckDirectories("/root/.ssh", "/etc"))
	err := p.CheckDirectories("/root/.ssh", "/etc")
	require.EqualError(t, err, `the configuration wants what the policy does not allow:
  dataDir: /root/.ssh is not in the list directories
      denied by policy.yaml:1
  runtimeDir: /etc is not in the list directories
      denied by policy.yaml:1`)

	s := subject()
	s.Options = map[string]any{"panic": "none", "asset": "x"}
	err = p.Check(planOf(t, "None", "network: []\n"), s)
	require.EqualError(t, err, `the VM type web does what the policy does not allow:
  the configuration: vm.options.asset is not in its list options
      denied by policy.yaml:16, the rule for /opt/web/**`)
}

// An error contains at most a hundred violations.
func TestViolationsAreBounded(t *testing.T) {
	t.Parallel()
	made := planOf(t, `part(options = [option("-device", "usb-mtp", {"id": "x%d" % n}) for n in range(150)])`,
		"network: []\n")
	var denied *policy.Error
	require.ErrorAs(t, read(t, strict).Check(made, subject()), &denied)
	require.Len(t, denied.Violations, 100)
}

// Everything that a rule does not list is denied.
func TestListsThatAreEmpty(t *testing.T) {
	t.Parallel()
	flags := read(t, "directories: [\"/**\"]\nrules: [{types: [\"/**\"], flags: [stock]}]\n")
	err := flags.Check(planOf(t, "None", "network: [{type: user}]\nuseTpm: true\n"), subject())
	for _, want := range []string{
		"the device virtio-rng-pci is not in its list devices",
		"netdev user is not in its list backends",
		"the network user is not in its list networks",
		"chardev socket is not in its list backends",
		"the program /usr/bin/qemu-system-x86_64 is not in its list programs",
	} {
		require.ErrorContains(t, err, want)
	}
}
