package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/program"
)

// kustomized returns the output of the only kustomization in a document.
func kustomized(t *testing.T, document string) string {
	t.Helper()
	var all []string
	for _, b := range blocks(t, document) {
		if strings.Contains(b.Text, "kind: Kustomization") {
			built, err := program.Kustomize(t.Context(), b.Text, "../../deploy")
			require.NoError(t, err)
			all = append(all, built)
		}
	}
	require.Len(t, all, 1)
	return all[0]
}

// The manager of a second namespace does not change the binding of the first manager.
func TestKustomizationOfASecondManager(t *testing.T) {
	t.Parallel()
	built := kustomized(t, "reference/manager.md")
	require.Regexp(t, `(?s)kind: ClusterRoleBinding.*\n  name: vm-operator-cluster-second\n.*kind: ClusterRole\n`+
		`  name: vm-operator-cluster\n.*- kind: ServiceAccount\n  name: vm-operator\n  namespace: second\n`, built)
	require.NotContains(t, built, "kind: CustomResourceDefinition")
}

// The page's kustomization and its command for the folder name both images.
func TestKustomizationsInDocuments(t *testing.T) {
	t.Parallel()
	const manager, runner = "image: registry.example/vmop/manager:v1.0.0\n",
		"value: registry.example/vmop/runner:v1.0.0\n"
	built := kustomized(t, "tasks/kubernetes-images.md")
	require.Contains(t, built, manager)
	require.Contains(t, built, runner)
	require.NotContains(t, built, "vmop/runner:devel")

	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("../deploy/manager")))
	file := filepath.Join(dir, "kustomization.yaml")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	edited := string(text) // as "kustomize edit set image" does
	for _, name := range []string{"manager", "runner"} {
		require.Contains(t, read(t, "tasks/kubernetes-images.md"),
			"vmop/"+name+"=registry.example/vmop/"+name+":v1.0.0")
		edited = strings.Replace(edited, "- name: vmop/"+name+"\n  newTag: devel", "- name: vmop/"+name+
			"\n  newName: registry.example/vmop/"+name+"\n  newTag: v1.0.0", 1)
	}
	require.NoError(t, os.WriteFile(file, []byte(edited), 0o600))
	out, err := exec.CommandContext(t.Context(), "kubectl", "kustomize", dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), manager)
	require.Contains(t, string(out), runner)
}

// The page's kustomization sets the plugin's image and keeps the plugin's namespace.
func TestKustomizationOfTheDevicePlugin(t *testing.T) {
	t.Parallel()
	built := kustomized(t, "tasks/device-plugin.md")
	require.Contains(t, built, "image: registry.example/vmop/manager:v1.0.0\n")
	require.Regexp(t, `(?s)kind: DaemonSet\n.*\n  namespace: vmop-devices\n`, built)
}
