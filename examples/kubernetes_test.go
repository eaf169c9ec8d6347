package examples_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	v1 "vmop/api/v1"
	"vmop/internal/yamlfile"
	"vmop/manager"
	"vmop/manager/vm/objects"
	"vmop/runner/config"
	"vmop/test/cluster"
	"vmop/test/cluster/clustertest"
	"vmop/test/program"
)

// A real API server accepts every example, applied as its comments describe. A runner can read the configuration that a
// manager creates for the example's VM.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	kustomizations, err := filepath.Glob(filepath.Join("*", "kustomization.yaml"))
	require.NoError(t, err)
	require.Len(t, kustomizations, 15)
	require.NoError(t, program.LookInto("."))
	k := clustertest.New(t, cluster.Options{})
	for _, kustomization := range kustomizations {
		name := filepath.Dir(kustomization)
		t.Run(name, func(t *testing.T) { // one at a time: they share cluster-wide resources
			try(t, k, name)
		})
	}
}

// try applies an example in a new namespace, without the definitions, which the cluster already has.
func try(t *testing.T, k *clustertest.Kubernetes, name string) {
	base, err := k.Kubectl(t.Context(), "kustomize", name)
	require.NoError(t, err)
	var documents []string
	for document := range strings.SplitSeq(strings.TrimSpace(base), "\n---\n") {
		if strings.Contains(document, "kind: ConfigMap") {
			requireConfiguration(t, document)
		}
		if !strings.Contains(document, "kind: CustomResourceDefinition") {
			documents = append(documents, document)
		}
	}
	apply(t, k, name, strings.Join(documents, "\n---\n"))
	if name == "runner-pod" {
		require.Contains(t, base, "kind: Pod\n")
		return
	}
	files, err := filepath.Glob(filepath.Join(name, "v*.yaml"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		apply(t, k, name, string(text))
	}
	vm := requireVM(t, k, name)
	if name == "network-policy" {
		requireHeld(t, k, vm)
	}
}

// requireHeld requires that the network policies select the VM's pod and the manager's pod.
func requireHeld(t *testing.T, k *clustertest.Kubernetes, vm *v1.VirtualMachine) {
	t.Helper()
	get := func(kind, name string, into any) {
		text, err := k.Kubectl(t.Context(), "get", kind, name, "-n", vm.Namespace, "-o", "json")
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal([]byte(text), into))
	}
	set, err := objects.StatefulSet(vm, objects.Settings{}, nil, "", 1, false)
	require.NoError(t, err)
	var manager appsv1.Deployment
	get("deployment", "vm-operator", &manager)
	for name, labels := range map[string]map[string]string{
		"vms": set.Spec.Template.Labels, "manager": manager.Spec.Template.Labels,
	} {
		var policy networkingv1.NetworkPolicy
		get("networkpolicies", name, &policy)
		require.NotEmpty(t, policy.Spec.PodSelector.MatchLabels)
		require.Subset(t, labels, policy.Spec.PodSelector.MatchLabels)
	}
}

// apply applies documents after replacing the namespace with the example's name.
func apply(t *testing.T, k *clustertest.Kubernetes, name, documents string) {
	t.Helper()
	documents = strings.NewReplacer("vmop-demo", name, "vmop-runner", name).Replace(documents)
	warnings := &bytes.Buffer{}
	who := rest.CopyConfig(k.Config)
	who.WarningHandler = rest.NewWarningWriter(warnings, rest.WarningWriterOptions{})
	require.NoError(t, k.Apply(t.Context(), who, "", documents, metav1.PatchOptions{}), documents)
	require.Empty(t, warnings.String(), "a pod that its namespace wouldn't take")
}

// requireConfiguration requires that the files in a ConfigMap are valid.
func requireConfiguration(t *testing.T, document string) {
	t.Helper()
	var files struct {
		Metadata struct{ Name string }
		Data     map[string]string
	}
	require.NoError(t, yaml.Unmarshal([]byte(document), &files))
	text, has := files.Data["config.yaml"]
	if !has {
		return
	}
	var warnings []yamlfile.Warning
	var err error
	if files.Metadata.Name == "vm-operator" {
		_, warnings, err = manager.Parse("config.yaml", []byte(text))
	} else {
		_, warnings, err = config.Parse("config.yaml", []byte(text))
	}
	require.NoError(t, err)
	require.Empty(t, warnings)
}

func requireVM(t *testing.T, k *clustertest.Kubernetes, namespace string) *v1.VirtualMachine {
	t.Helper()
	text, err := k.Kubectl(t.Context(), "get", "vms", "-n", namespace, "-o", "json")
	require.NoError(t, err)
	var list v1.VirtualMachineList
	require.NoError(t, json.Unmarshal([]byte(text), &list))
	require.Len(t, list.Items, 1)
	file, err := objects.Config(&list.Items[0], objects.Given{})
	require.NoError(t, err)
	_, warnings, err := config.Parse("config.yaml", file)
	require.NoError(t, err)
	require.Empty(t, warnings)
	return &list.Items[0]
}
