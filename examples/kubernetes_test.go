package examples_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"

	v1 "vmop/api/v1"
	"vmop/manager"
	"vmop/manager/objects"
	"vmop/runner/config"
	"vmop/test/cluster"
	"vmop/test/program"
	"vmop/yamlfile"
)

// A real API server takes every example as its comments say, and what a manager would
// make of its VM is what a runner reads.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	kustomizations, err := filepath.Glob(filepath.Join("*", "kustomization.yaml"))
	require.NoError(t, err)
	require.Len(t, kustomizations, 15)
	require.NoError(t, errors.Join(program.LookInto("."), program.LookInto("../deploy")))
	c, err := cluster.Up(t.Context(), cluster.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Down(context.WithoutCancel(t.Context()))) })
	for _, kustomization := range kustomizations {
		name := filepath.Dir(kustomization)
		t.Run(name, func(t *testing.T) { // one after the other: they share what is the cluster's
			try(t, c, name)
		})
	}
}

// try applies an example in a namespace of its own.
func try(t *testing.T, c *cluster.Cluster, name string) {
	base, err := c.Kubectl(t.Context(), "kustomize", name)
	require.NoError(t, err)
	said := apply(t, c, name, base)
	for _, document := range strings.Split(base, "\n---\n") {
		if strings.Contains(document, "kind: ConfigMap") {
			requireConfiguration(t, document)
		}
	}
	if name == "runner-pod" {
		require.Contains(t, said, "pod/demo serverside-applied")
		return
	}
	for _, resource := range []string{"vms.", "virtualmachineclasses.", "virtualdisks.", "vmpools."} {
		require.NoError(t, c.AwaitResource(t.Context(), resource+v1.GroupName))
	}
	files, err := filepath.Glob(filepath.Join(name, "v*.yaml"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		apply(t, c, name, string(text))
	}
	vm := requireVM(t, c, name)
	if name == "network-policy" {
		requireHeld(t, c, vm)
	}
}

// requireHeld wants the network policies to be about the VM's pod and about the manager's.
func requireHeld(t *testing.T, c *cluster.Cluster, vm *v1.VirtualMachine) {
	t.Helper()
	get := func(kind, name string, into any) {
		text, err := c.Kubectl(t.Context(), "get", kind, name, "-n", vm.Namespace, "-o", "json")
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

// apply applies documents, in which the namespace has the example's name.
func apply(t *testing.T, c *cluster.Cluster, name, documents string) string {
	t.Helper()
	documents = strings.NewReplacer("vmop-demo", name, "vmop-runner", name).Replace(documents)
	cmd := c.KubectlCommand(t.Context(), "apply", "--server-side", "--force-conflicts", "--validate=strict", "-f", "-")
	cmd.Stdin = strings.NewReader(documents)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), "Warning", "a pod that its namespace wouldn't take")
	return string(out)
}

// requireConfiguration wants the files in a ConfigMap to be without fault.
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

func requireVM(t *testing.T, c *cluster.Cluster, namespace string) *v1.VirtualMachine {
	t.Helper()
	text, err := c.Kubectl(t.Context(), "get", "vms", "-n", namespace, "-o", "json")
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
