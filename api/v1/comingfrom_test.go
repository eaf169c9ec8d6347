package v1_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	v1 "vmop/api/v1"
)

// mapping is a row of a page for users of another product: the product's field, ours, and an example.
type mapping struct{ theirs, here, example string }

// mappings returns the rows of the tables with examples in the third column.
func mappings(t *testing.T) (rows []mapping) {
	t.Helper()
	var text strings.Builder
	for _, product := range []string{"vm-operator", "deckhouse", "kubevirt"} {
		page, err := os.ReadFile("../../docs/tasks/from-" + product + ".md")
		require.NoError(t, err)
		text.Write(page)
	}
	inside := false
	for line := range strings.Lines(text.String()) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		switch {
		case !strings.HasPrefix(line, "|"):
			inside = false
		case len(cells) == 3 && strings.HasPrefix(cells[2], "Example"):
			inside = true
		case inside && !strings.HasPrefix(line, "|---"):
			require.Len(t, cells, 3, line)
			rows = append(rows, mapping{cells[0], cells[1], strings.Trim(strings.TrimSuffix(cells[2], "|"), " `")})
		}
	}
	return rows
}

// takes returns the API server's error for an example: fields of a VM's spec, a VM with the keys metadata, spec or
// status, or an object of another kind.
func takes(t *testing.T, client dynamic.Interface, namespace, example string) error {
	t.Helper()
	var change map[string]any
	if err := yaml.UnmarshalStrict([]byte(example), &change); err != nil {
		return err
	}
	create := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: "Strict"}
	vms := client.Resource(v1.GroupVersion().WithResource("vms")).Namespace(namespace)
	if kind, is := change["kind"].(string); is {
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": v1.GroupVersion().String()}}
		patch(t, object, example)
		resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		of := dynamic.ResourceInterface(client.Resource(resource).Namespace(namespace))
		switch kind {
		case "VirtualMachine":
			of = vms
		case "VirtualMachineClass":
			of = client.Resource(resource)
		}
		_, err := of.Create(t.Context(), object, create)
		return err
	}
	if change["status"] != nil {
		text, err := yaml.YAMLToJSON([]byte(example))
		require.NoError(t, err)
		_, err = vms.Patch(t.Context(), "test-vm", types.MergePatchType, text,
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: "Strict"}, "status")
		return err
	}
	if change["metadata"] == nil && change["spec"] == nil {
		example = "{spec: " + example + "}"
	}
	vm := &unstructured.Unstructured{Object: map[string]any{}}
	patch(t, vm, "{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachine, metadata: {name: web}, "+
		"spec: {vm: {maximumCpus: 1, networks: [{tap: {}}]}}}")
	patch(t, vm, example)
	_, err := vms.Create(t.Context(), vm, create)
	return err
}

// Each row of these pages has an example that the API server accepts, or states that we have no such field.
func testComingFrom(t *testing.T, client dynamic.Interface, namespace string) {
	rows := mappings(t)
	require.Greater(t, len(rows), 60)
	same, err := os.ReadFile("testdata/same-fields.txt") // fields that the pages list as the same, without an example
	require.NoError(t, err)
	for example := range strings.Lines(string(same)) {
		require.NoError(t, takes(t, client, namespace, example), example)
	}
	for _, row := range rows {
		if row.example == "|" || row.example == "" {
			require.Regexp(t, `^not there( |:|$)`, row.here, "%s has neither an example nor a reason", row.theirs)
			continue
		}
		require.NoError(t, takes(t, client, namespace, row.example), row.theirs)
	}
	for example, fault := range map[string]string{
		"{runPolicy: Always}":         "Unsupported value",
		"{vm: {cpu: 2}}":              `unknown field "spec.vm.cpu"`,
		"{metadata: {label: {a: b}}}": `unknown field "metadata.label"`,
		"{status: {ready: true}}":     `unknown field "status.ready"`,
		"{kind: VirtualMachineOperation, metadata: {name: a}, spec: {type: Fly, virtualMachineName: web}}": "Unsupported value",
	} {
		require.ErrorContains(t, takes(t, client, namespace, example), fault, "a wrong example is noticed")
	}
}
