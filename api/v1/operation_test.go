package v1_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "vmop/api/v1"
	"vmop/test/cluster/clustertest"
)

// testOperations checks the definition of VirtualMachineOperations.
func testOperations(t *testing.T, n *clustertest.Namespace) {
	kubectl := func(args ...string) (string, error) {
		return n.Cluster.Kubectl(t.Context(), append([]string{"-n", n.Name}, args...)...)
	}
	apply := func(name, fields string) error {
		return n.TryApply(`
apiVersion: vmoperator.jdrupes.org/v1
kind: VirtualMachineOperation
metadata: {name: ` + name + `, annotations: {vmoperator.jdrupes.org/requested-by: admin}}
spec: {` + fields + `}`)
	}
	for name, fields := range map[string]string{
		"start": "type: Start", "stop": "type: Stop, force: true", "restart": "type: Restart, force: true",
		"reset": "type: Reset, force: false", "evict": "type: Evict, force: true", "migrate": "type: Migrate",
		"migrate-to": "type: Migrate, migrate: {nodeSelector: {topology.kubernetes.io/zone: b, kubernetes.io/os: linux}}",
	} {
		require.NoError(t, apply(name, fields+", virtualMachineName: web"), name)
	}
	page, err := os.ReadFile("../../docs/reference/operations.md")
	require.NoError(t, err)
	examples := strings.Split(string(page), "```yaml\n")[1:]
	require.Len(t, examples, 3)
	for _, example := range examples {
		text, _, _ := strings.Cut(example, "```")
		require.NoError(t, n.TryApply(text), text)
	}
	const notForced = "spec.force: Invalid value: only Stop, Restart, Evict and Migrate can be forced: leave it out"
	for _, row := range []struct{ fields, want string }{
		{"type: Start, virtualMachineName: web, force: true", notForced},
		{"type: Reset, virtualMachineName: web, force: true", notForced},
		{
			"type: Pause, virtualMachineName: web",
			`spec.type: Unsupported value: "Pause": supported values: "Start", "Stop", "Restart", "Reset", "Evict", "Migrate"`,
		},
		{
			"type: Stop, virtualMachineName: web, migrate: {nodeSelector: {zone: b}}",
			"spec.migrate: Invalid value: only Migrate has it: leave it out",
		},
		{"virtualMachineName: web", "spec.type: Required value"},
		{"type: Start", "spec.virtualMachineName: Required value"},
		{
			"type: Start, virtualMachineName: other/web",
			`spec.virtualMachineName: Invalid value: "other/web": must be the name of a VM in this namespace`,
		},
		{
			"type: Start, virtualMachineName: " + strings.Repeat("a", 49),
			"spec.virtualMachineName: Too long: may not be more than 48 bytes",
		},
	} {
		require.ErrorContains(t, apply("bad", row.fields), row.want, row.fields)
	}
	for _, fields := range []string{
		"type: Stop, virtualMachineName: web", "type: Stop, virtualMachineName: db, force: true",
		"type: Start, virtualMachineName: web",
	} {
		require.ErrorContains(t, apply("stop", fields),
			"spec: Invalid value: an operation can't be changed: delete it", fields)
	}

	const by = "vmoperator.jdrupes.org/requested-by"
	_, err = kubectl("annotate", "--overwrite", "vmop", "reset", by+"=boss")
	require.ErrorContains(t, err, "requested-by of an operation can't be changed")
	_, err = kubectl("annotate", "vmop", "reset", by+"-")
	require.ErrorContains(t, err, "requested-by of an operation can't be changed")
	for as, allowed := range map[string]bool{
		"boss": false, "admin": true, "system:serviceaccount:" + n.Name + ":vm-operator": true,
		"system:serviceaccount:other:vm-operator": false,
	} {
		file := filepath.Join(t.TempDir(), "operation.yaml")
		require.NoError(t, os.WriteFile(file, []byte(`
apiVersion: vmoperator.jdrupes.org/v1
kind: VirtualMachineOperation
metadata: {generateName: by-, annotations: {vmoperator.jdrupes.org/requested-by: admin}}
spec: {type: Start, virtualMachineName: web}`), 0o600))
		_, err := kubectl("create", "-f", file, "--as", as, "--as-group", "system:masters")
		if allowed {
			require.NoError(t, err, as)
			continue
		}
		require.ErrorContains(t, err, "requested-by must be your name, "+as+", or be left out")
	}

	out, err := kubectl("get", "vmop", "reset")
	require.NoError(t, err)
	require.Regexp(t, `^NAME +PHASE +TYPE +VIRTUALMACHINE +AGE\nreset +Pending +Reset +web +\d+s\n$`, out)
	status := []string{"patch", "vmop", "reset", "--subresource=status", "--type=merge", "-p"}
	_, err = kubectl(append(status,
		`{"status": {"phase": "`+string(v1.OperationFailed)+`", "reason": "None", "message": "there is no VM"}}`)...)
	require.NoError(t, err)
	out, err = kubectl("get", "virtualmachineoperations", "reset", "-o", "wide")
	require.NoError(t, err)
	require.Regexp(t, `AGE +REASON +REQUESTED-BY +MESSAGE\nreset +Failed .* None +admin +there is no VM\n$`, out)
	_, err = kubectl(append(status, `{"status": {"phase": "Done"}}`)...)
	require.ErrorContains(t, err, `status.phase: Unsupported value: "Done"`)
}
