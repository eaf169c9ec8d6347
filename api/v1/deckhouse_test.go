package v1_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	v1 "vmop/api/v1"
)

// testDeckhouse requires that the API server accepts all examples of Deckhouse's guide, with all of their fields.
func testDeckhouse(t *testing.T, client dynamic.Interface, namespace string) {
	text, err := os.ReadFile(filepath.Join("testdata", "deckhouse.yaml"))
	require.NoError(t, err)
	examples := strings.Split(string(text), "\n---\n")[1:]
	require.Len(t, examples, 16)
	for _, example := range examples {
		require.NoError(t, takes(t, client, namespace, example), example)
	}
	for example, fault := range map[string]string{
		strings.Replace(examples[8], "disktype: ssd", "disktype: 1", 1): "spec.nodeSelector.disktype",
		strings.Replace(examples[0], "  cpu:", "  cpus:", 1):            `unknown field "spec.cpus"`,
	} {
		require.ErrorContains(t, takes(t, client, namespace, example), fault, "a wrong example is noticed")
	}
	of := func(resource string) dynamic.ResourceInterface {
		return client.Resource(v1.GroupVersion().WithResource(resource)).Namespace(namespace)
	}
	for _, change := range []struct{ resource, name, of, patch string }{
		{"vms", "linux-vm", examples[0], `{"spec":{"vm":{"maximumCpus":2}}}`},
		{"virtualmachineipaddresses", "linux-vm-custom-ip", examples[13], `{"metadata":{"ownerReferences":null}}`},
	} {
		object := &unstructured.Unstructured{Object: map[string]any{}}
		patch(t, object, change.of)
		_, err := of(change.resource).Create(t.Context(), object, metav1.CreateOptions{})
		require.NoError(t, err)
		_, err = of(change.resource).Patch(t.Context(), change.name, types.MergePatchType, []byte(change.patch),
			metav1.PatchOptions{FieldValidation: "Strict"})
		require.NoError(t, err)
	}
}

// testPage requires that the API server accepts the examples of a page of docs that have a kind or a spec. Examples of
// the manager's configuration are skipped.
func testPage(t *testing.T, client dynamic.Interface, namespace, page string, count int) {
	text, err := os.ReadFile(filepath.Join("../../docs", page))
	require.NoError(t, err)
	for _, after := range strings.Split(string(text), "```yaml\n")[1:] {
		example, _, _ := strings.Cut(after, "```")
		if strings.HasPrefix(example, `"/Manager"`) {
			continue
		}
		require.NoError(t, takes(t, client, namespace, example), example)
		wrong := strings.Replace(example, "spec:\n", "spec:\n  wrong: 1\n", 1)
		require.ErrorContains(t, takes(t, client, namespace, wrong), `unknown field "spec.wrong"`, example)
		count--
	}
	require.Zero(t, count)
}
