package v1_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/cluster/clustertest"
	"vmop/test/wait"
)

// testAddresses checks how the API server defaults and validates addresses and leases, and who may change them.
func testAddresses(t *testing.T, n *clustertest.Namespace) {
	t.Parallel()
	kubectl := func(in string, args ...string) (string, error) {
		cmd := n.KubectlCommand(t.Context(), args...)
		cmd.Stdin = strings.NewReader(in)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	refused := func(as, document, want string) {
		t.Helper()
		require.ErrorContains(t, n.TryApplyAs(as, document), want, document)
	}
	const head = "{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachineIPAddress, metadata: {name: my-ip}"
	lease := func(name, namespace string) string {
		return fmt.Sprintf("{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachineIPAddressLease, metadata: {name: %s}, "+
			"spec: {virtualMachineIPAddressRef: {name: linux-vm-7prpx, namespace: %s}}}", name, namespace)
	}
	n.Apply("{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: user}, rules: ["+
		"{apiGroups: [vmoperator.jdrupes.org], resources: [virtualmachineipaddresses], verbs: ['*']}]}",
		"{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: user}, roleRef: "+
			"{apiGroup: rbac.authorization.k8s.io, kind: Role, name: user}, subjects: [{kind: User, name: me}]}")
	manager := "system:serviceaccount:" + n.Name + ":vm-operator"
	n.Apply("{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: " + n.Name + "}, roleRef: " +
		"{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, subjects: [{kind: User, name: '" + manager + "'}]}")

	for _, row := range []struct{ spec, want string }{
		{"{type: Static}", "spec.staticIP: Invalid value: type Static needs staticIP, such as 10.66.20.77; type Auto has none"},
		{"{staticIP: 10.66.20.77}", "type Static needs staticIP, such as 10.66.20.77; type Auto has none"},
		{"{type: Static, staticIP: fd00::1}", `spec.staticIP: Invalid value: "fd00::1": must be an IPv4 address, such as 10.66.20.77`},
		{"{type: Static, staticIP: 10.66.20.0/24}", "must be an IPv4 address, such as 10.66.20.77"},
		{"{type: Static, staticIP: 10.66.20.300}", "must be an IPv4 address, such as 10.66.20.77"},
		{"{type: Fixed}", `Unsupported value: "Fixed": supported values: "Auto", "Static"`},
	} {
		refused("me", head+", spec: "+row.spec+"}", row.want)
	}
	refused("me", head+", spec: {}, status: {phase: Bound, address: 10.66.10.14}}",
		"the status is the manager's: leave it out, and change the object by kubectl apply, edit or patch")
	refused("me", head+", spec: {}, status: {reason: NotSeen, virtualMachine: other}}", "the status is the manager's")

	n.Apply(head + ", spec: {type: Static, staticIP: 10.66.20.77}}")
	require.Regexp(t, `^NAME +ADDRESS +STATUS +VM +AGE\nmy-ip +Pending +\d+s\n$`, n.Kubectl("get", "vmip"))
	refused("me", head+", spec: {type: Static, staticIP: 10.66.20.78}}",
		"spec: Invalid value: an address can't be changed: make another VirtualMachineIPAddress, and name it in spec.virtualMachineIPAddressName of the VM")
	patch := `{"status": {"phase": "Attached", "address": "10.66.20.77", "virtualMachine": "linux-vm", "reason": null, "message": null}}`
	out, err := kubectl("", "--namespace", n.Name, "--as", "me", "patch", "vmip", "my-ip", "--type=merge", "-p", patch)
	require.Error(t, err)
	require.Contains(t, out, "the status is the manager's")
	n.Kubectl("--as", manager, "patch", "vmip", "my-ip", "--type=merge", "-p", patch)
	require.Regexp(t, `\nmy-ip +10\.66\.20\.77 +Attached +linux-vm +\d+s\n$`, n.Kubectl("get", "vmip"))
	n.Kubectl("--as", "me", "patch", "vmip", "my-ip", "--type=merge", "--patch",
		`{"metadata":{"ownerReferences":null}}`)
	out, err = kubectl("", "delete", "vmip", "my-ip", "--namespace", n.Name)
	require.Error(t, err)
	require.Contains(t, out, "the address 10.66.20.77 is attached to the VM linux-vm: delete the VM, or name another address")

	refused(manager, lease("ip-10-66-10", n.Name), "metadata: Invalid value: metadata.name must be ip- and an IPv4 address")
	refused(manager, lease("ip-10-66-10-300", n.Name), "metadata.name must be ip- and an IPv4 address")
	refused(manager, lease("ip-10-66-10-14", "other"), "a manager writes the leases of its own namespace only")
	out, err = kubectl(lease("ip-10-66-10-14", n.Name), "--as", manager, "apply", "-f", "-")
	require.NoError(t, err, out)
	refused("admin", lease("ip-10-66-10-14", "other"), "forbidden")
	out, err = kubectl(lease("ip-10-66-10-14", "other"), "apply", "--dry-run=server", "-f", "-")
	require.Error(t, err)
	require.Contains(t, out, "namespace: Invalid value: a lease stays in its namespace: it can be made for another one when it is gone")
	require.Regexp(t, `^NAME +VIRTUALMACHINEIPADDRESS +STATUS +AGE\nip-10-66-10-14 +`+
		`\{"name":"linux-vm-7prpx","namespace":"`+n.Name+`"\} +Bound +\d+s\n$`, n.Kubectl("get", "vmipl"))
	n.Kubectl("--as", manager, "delete", "vmipl", "ip-10-66-10-14")

	n.Kubectl("delete", "namespace", n.Name, "--wait=false") // with the address, even though a VM uses it
	wait.For(t, "the end of the namespace", func() error {
		if out := n.Kubectl("get", "namespace", n.Name, "--ignore-not-found"); out != "" {
			return fmt.Errorf("it is there: %s", out)
		}
		return nil
	})
}
