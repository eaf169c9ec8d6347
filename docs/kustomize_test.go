package docs_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/program"
)

// The manager of a second namespace leaves the binding of the first one as it is.
func TestKustomizationOfASecondManager(t *testing.T) {
	t.Parallel()
	deploy, err := filepath.Abs("../deploy")
	require.NoError(t, errors.Join(err, program.LookInto("../deploy")))
	count := 0
	for _, b := range blocks(t, "manager.md") {
		if !strings.Contains(b.text, "kind: Kustomization") {
			continue
		}
		count++
		dir := t.TempDir()
		base, err := filepath.Rel(dir, deploy)
		require.NoError(t, err)
		text := strings.ReplaceAll(b.text, "../../deploy", base)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600))
		out, err := exec.CommandContext(t.Context(), "kubectl", "kustomize", dir).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Regexp(t, `(?s)kind: ClusterRoleBinding.*\n  name: vm-operator-cluster-second\n.*kind: ClusterRole\n`+
			`  name: vm-operator-cluster\n.*- kind: ServiceAccount\n  name: vm-operator\n  namespace: second\n`, string(out))
		require.NotContains(t, string(out), "kind: CustomResourceDefinition")
	}
	require.Equal(t, 1, count)
}

// The page's kustomization, and its command for the folder itself, name both images.
func TestKustomizationsInDocuments(t *testing.T) {
	t.Parallel()
	deploy, err := filepath.Abs("../deploy")
	require.NoError(t, errors.Join(err, program.LookInto("../deploy")))
	build := func(dir string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "kubectl", "kustomize", dir).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	const manager, runner = "image: registry.example/vmop/manager:v1.0.0\n",
		"value: registry.example/vmop/runner:v1.0.0\n"
	count := 0
	for _, b := range blocks(t, "kubernetes-images.md") {
		if !strings.Contains(b.text, "kind: Kustomization") {
			continue
		}
		count++
		dir := t.TempDir()
		base, err := filepath.Rel(dir, deploy)
		require.NoError(t, err)
		text := strings.ReplaceAll(b.text, "../../deploy", base)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600))
		built := build(dir)
		require.Contains(t, built, manager)
		require.Contains(t, built, runner)
		require.NotContains(t, built, "vmop/runner:devel")
	}
	require.Equal(t, 1, count)

	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(deploy, "manager"))))
	file := filepath.Join(dir, "kustomization.yaml")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	edited := string(text) // as "kustomize edit set image" does
	for _, name := range []string{"manager", "runner"} {
		require.Contains(t, read(t, "kubernetes-images.md"), "vmop/"+name+"=registry.example/vmop/"+name+":v1.0.0")
		edited = strings.Replace(edited, "- name: vmop/"+name+"\n  newTag: devel", "- name: vmop/"+name+
			"\n  newName: registry.example/vmop/"+name+"\n  newTag: v1.0.0", 1)
	}
	require.NoError(t, os.WriteFile(file, []byte(edited), 0o600))
	built := build(dir)
	require.Contains(t, built, manager)
	require.Contains(t, built, runner)
}

// The page's kustomization names the image of the plugin, and leaves it its namespace.
func TestKustomizationOfTheDevicePlugin(t *testing.T) {
	t.Parallel()
	deploy, err := filepath.Abs("../deploy")
	require.NoError(t, errors.Join(err, program.LookInto("../deploy")))
	count := 0
	for _, b := range blocks(t, "device-plugin.md") {
		if !strings.Contains(b.text, "kind: Kustomization") {
			continue
		}
		count++
		dir := t.TempDir()
		base, err := filepath.Rel(dir, deploy)
		require.NoError(t, err)
		text := strings.ReplaceAll(b.text, "../../deploy", base)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600))
		out, err := exec.CommandContext(t.Context(), "kubectl", "kustomize", dir).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "image: registry.example/vmop/manager:v1.0.0\n")
		require.Regexp(t, `(?s)kind: DaemonSet\n.*\n  namespace: vmop-devices\n`, string(out))
	}
	require.Equal(t, 1, count)
}
