// Package chart_test compares the chart with kustomize's output for the same objects (docs/decisions/0152-chart.md),
// and installs it.
package chart_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"vmop/manager"
	"vmop/test/cluster"
	"vmop/test/program"
)

// runner returns a helm command.
type runner func(words ...string) *exec.Cmd

// Helm lints the chart, renders the same objects as kustomize, and installs it.
func TestChart(t *testing.T) {
	t.Parallel()
	run := helm(t)
	require.Contains(t, output(t, run("lint", "--strict", ".")), "0 chart(s) failed")
	for name, test := range map[string]func(*testing.T, runner){
		"kustomization": isTheKustomization, "device plugin": hasTheDevicePlugin, "package": isPacked,
		"values":       takesValues,
		"runner alone": runsAlone, "values of a runner": takesRunnerValues,
		"wrong values": refusesOthers, "install": installs, "documents": typesDocuments,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, run)
		})
	}
}

// helm builds Helm.
func helm(t *testing.T) runner {
	t.Helper()
	const module = "../../tools/helm"
	for _, folder := range []string{module, ".", ".."} {
		require.NoError(t, program.LookInto(folder))
	}
	path := filepath.Join(t.TempDir(), "helm")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, "helm.sh/helm/v4/cmd/helm")
	cmd.Dir, cmd.Env = module, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	home := t.TempDir()
	return func(words ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), path, words...)
		cmd.Env = append(os.Environ(), "HOME="+home, "HELM_CACHE_HOME="+home)
		return cmd
	}
}

// output runs a program that must succeed, and returns its output.
func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	require.NoError(t, err, "%s", said.String())
	return string(out)
}

// read parses objects by kind and name.
func read(t *testing.T, text string) map[string]*unstructured.Unstructured {
	t.Helper()
	all := map[string]*unstructured.Unstructured{}
	for _, document := range strings.Split("\n"+text, "\n---\n") {
		o := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(document), &o.Object))
		if len(o.Object) > 0 {
			all[o.GetKind()+"/"+o.GetName()] = o
		}
	}
	return all
}

// plain removes everything that the chart adds, and normalizes what it writes differently.
func plain(t *testing.T, all map[string]*unstructured.Unstructured) map[string]*unstructured.Unstructured {
	t.Helper()
	renamed := map[string]*unstructured.Unstructured{}
	for _, o := range all {
		labels, annotations := o.GetLabels(), o.GetAnnotations()
		delete(labels, "app.kubernetes.io/managed-by")
		delete(labels, "app.kubernetes.io/part-of")
		delete(labels, "app.kubernetes.io/instance")
		delete(annotations, "helm.sh/resource-policy")
		o.SetNamespace("")
		o.SetLabels(orNone(labels))
		o.SetAnnotations(orNone(annotations))
		o.SetName(strings.TrimSuffix(o.GetName(), "-demo"))
		if ref, is, _ := unstructured.NestedString(o.Object, "roleRef", "name"); is {
			ref = strings.TrimSuffix(ref, "-demo")
			require.NoError(t, unstructured.SetNestedField(o.Object, ref, "roleRef", "name"))
		}
		if text, is, _ := unstructured.NestedString(o.Object, "data", "config.yaml"); is {
			var config map[string]any
			require.NoError(t, yaml.Unmarshal([]byte(text), &config))
			require.NoError(t, unstructured.SetNestedField(o.Object, config, "data", "config.yaml"))
		}
		if o.GetKind() == "Service" { // set by the chart, and Kubernetes' default
			require.NoError(t, unstructured.SetNestedField(o.Object, "ClusterIP", "spec", "type"))
		}
		renamed[o.GetKind()+"/"+o.GetName()] = o
	}
	return renamed
}

func orNone(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}

// kustomized returns kustomize's output for the namespace demo.
func kustomized(t *testing.T, lines string) string {
	t.Helper()
	built, err := program.Kustomize(t.Context(), "namespace: demo\nresources: [DEPLOY]\n"+lines, "DEPLOY")
	require.NoError(t, err)
	return built
}

// The chart renders the same objects as kustomize, with all components and without.
func isTheKustomization(t *testing.T, run runner) {
	for name, c := range map[string]struct {
		values []string
		lines  string
	}{
		"by default": {},
		"with all": {
			[]string{"--set", "authDelegator=true,monitoring=true"},
			"components: [DEPLOY/auth-delegator, DEPLOY/monitoring]\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			words := append([]string{"template", "-n", "demo", "vms", "."}, c.values...)
			chart := plain(t, read(t, output(t, run(words...))))
			base := plain(t, read(t, kustomized(t, c.lines)))
			require.ElementsMatch(t, slices.Collect(maps.Keys(base)), slices.Collect(maps.Keys(chart)))
			for key, o := range base {
				require.Equal(t, o.Object, chart[key].Object, key)
			}
		})
	}
}

// With the device plugin, the chart also renders the objects of the plugin's kustomization, and the manager uses the
// plugin.
func hasTheDevicePlugin(t *testing.T, run runner) {
	text := output(t, run("template", "-n", "demo", "vms", ".", "--set", "devicePlugin=true"))
	require.Equal(t, "vmop-devices", read(t, text)["DaemonSet/vmop-devices"].GetNamespace())
	chart := plain(t, read(t, text))
	base := plain(t, read(t, output(t, exec.CommandContext(t.Context(), "kubectl", "kustomize", "../device-plugin"))))
	require.Len(t, base, 2)
	for key, o := range base {
		require.Equal(t, o.Object, chart[key].Object, key)
	}
	config, _, err := unstructured.NestedFieldNoCopy(chart["ConfigMap/vm-operator"].Object, "data", "config.yaml")
	require.NoError(t, err)
	name, _, err := unstructured.NestedString(config.(map[string]any), "/Manager", "/Controller", "/Reconciler",
		"kvmResource")
	require.NoError(t, err)
	require.Equal(t, "vmop/kvm", name)

	text = output(t, run("template", "-n", "demo", "vms", ".", "--set",
		"devicePlugin=true,imagePullSecrets={a},registry=r/v,config./Controller./Reconciler.kvmResource=theirs/kvm"))
	require.Contains(t, text, "kvmResource: theirs/kvm\n")
	require.Equal(t, 2, strings.Count(text, "image: r/v/manager:devel\n"))
	require.Equal(t, 2, strings.Count(text, "imagePullSecrets:\n"))
}

// A packed chart is reproducible, contains the version and the registry, and contains no links.
func isPacked(t *testing.T, run runner) {
	const script, file = "../../tools/scripts/chart", "../../build/vm-operator-0.0.1-test.tgz"
	const alone = "../../build/vm-runner-0.0.1-test.tgz"
	require.NoError(t, program.LookInto(script))
	t.Cleanup(func() { require.NoError(t, errors.Join(os.Remove(file), os.Remove(alone))) })
	var packed [2][]byte
	for i := range packed {
		out := output(t, exec.CommandContext(t.Context(), script, "v0.0.1-test", "registry.example/vmop"))
		require.Equal(t, "build/vm-operator-0.0.1-test.tgz\nbuild/vm-runner-0.0.1-test.tgz\n", out)
		for _, name := range []string{file, alone} {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			packed[i] = append(packed[i], text...)
		}
	}
	require.True(t, bytes.Equal(packed[0], packed[1]))
	require.Contains(t, output(t, run("template", "demo", alone)), "image: registry.example/vmop/runner:v0.0.1-test\n")
	text := output(t, run("template", "vms", file))
	require.Contains(t, text, "image: registry.example/vmop/manager:v0.0.1-test\n")
	require.Equal(t, len(read(t, output(t, run("template", "vms", ".")))), len(read(t, text)))
	require.Contains(t, output(t, run("template", "vms", file, "--set", "devicePlugin=true")), "kind: DaemonSet\n")

	out, err := exec.CommandContext(t.Context(), script, "791fdf71").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "such as VERSION=v1.0.0, not 791fdf71")
}

// values sets every value of the chart to something other than its default.
const values = `
registry: registry.example:5000/vmop
tag: v1.2.3
imagePullPolicy: Always
imagePullSecrets: [a, b]
cluster: false
config: {"/Controller": {"/Reconciler": {ramOvercommit: 3}}, "/Access": {administrators: {users: [me]}}}
loggingProperties: ".level=INFO"
usersSecret: people
tlsSecret: certificate
runner: {image: "registry.example/runner@sha256:0123"}
manager:
  replicas: 2
  resources: {limits: {memory: 1Gi}}
  podAnnotations: {a: b}
  nodeSelector: {disk: fast}
  tolerations: [{key: vms}]
  affinity: {podAntiAffinity: {}}
  priorityClassName: high
  extraEnv: [{name: OTEL_EXPORTER_OTLP_ENDPOINT, value: "http://collector:4318"}]
  extraVolumes: [{name: oidc, secret: {secretName: oidc}}]
  extraVolumeMounts: [{name: oidc, mountPath: /etc/opt/vmoperator/oidc}]
service: {type: LoadBalancer, annotations: {c: d}}
ingress: {host: vms.example.org, className: nginx, tlsSecret: vms-tls}
imageRepositorySize: 5Gi
imageRepositoryStorageClass: slow
monitoring: true
monitoringLabels: {release: prometheus}
`

// Each value reaches the field that it configures.
func takesValues(t *testing.T, run runner) {
	cmd := run("template", "-n", "demo", "vms", ".", "-f", "-")
	cmd.Stdin = strings.NewReader(values)
	text := output(t, cmd)
	all := read(t, text)
	for key := range all {
		require.NotContains(t, key, "CustomResourceDefinition")
		require.NotContains(t, key, "AdmissionPolicy")
	}

	var deployment appsv1.Deployment
	written, err := all["Deployment/vm-operator"].MarshalJSON()
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(written, &deployment))
	pod := deployment.Spec.Template.Spec
	container := pod.Containers[0]
	require.Equal(t, int32(2), *deployment.Spec.Replicas)
	require.Equal(t, "b", deployment.Spec.Template.Annotations["a"])
	require.Equal(t, "registry.example:5000/vmop/manager:v1.2.3", container.Image)
	require.Equal(t, "Always", string(container.ImagePullPolicy))
	require.Equal(t, "registry.example/runner@sha256:0123", container.Env[0].Value)
	require.Equal(t, "http://collector:4318", container.Env[len(container.Env)-1].Value)
	require.Equal(t, "1Gi", container.Resources.Limits.Memory().String())
	require.Len(t, pod.ImagePullSecrets, 2)
	require.Equal(t, "fast", pod.NodeSelector["disk"])
	require.Equal(t, "vms", pod.Tolerations[0].Key)
	require.NotNil(t, pod.Affinity.PodAntiAffinity)
	require.Equal(t, "high", pod.PriorityClassName)
	require.Equal(t, "/etc/opt/vmoperator/oidc", container.VolumeMounts[len(container.VolumeMounts)-1].MountPath)
	secrets := map[string]string{}
	for _, volume := range pod.Volumes {
		if volume.Secret != nil {
			secrets[volume.Name] = volume.Secret.SecretName
		}
	}
	require.Equal(t, map[string]string{"users": "people", "tls": "certificate", "oidc": "oidc"}, secrets)

	files, _, err := unstructured.NestedStringMap(all["ConfigMap/vm-operator"].Object, "data")
	require.NoError(t, err)
	require.Equal(t, ".level=INFO", files["logging.properties"])
	_, warnings, err := manager.Parse("config.yaml", []byte(files["config.yaml"]))
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.Contains(t, files["config.yaml"], "ramOvercommit: 3\n")
	require.Contains(t, files["config.yaml"], "usersFile: /etc/opt/vmoperator/users/users", "what isn't given stays")
	require.NotContains(t, files["config.yaml"], "admin\n")
	for _, line := range []string{
		"  type: LoadBalancer\n", "    c: d\n", "  ingressClassName: \"nginx\"\n", "    secretName: \"vms-tls\"\n",
		"      storage: 5Gi\n", "  storageClassName: slow\n", "    release: prometheus\n",
	} {
		require.Contains(t, text, line)
	}
}

// Unknown values are refused with an error that names them.
func refusesOthers(t *testing.T, run runner) {
	for set, message := range map[string]string{
		"replicas=2":                "additional properties 'replicas' not allowed",
		"manager.replica=2":         "additional properties 'replica' not allowed",
		"manager.replicas=many":     "got string, want integer",
		"registry=https://x/vmop":   "does not match pattern",
		"service.type=Loadbalancer": "value must be one of",
	} {
		out, err := run("template", "-n", "demo", "vms", ".", "--set", set).CombinedOutput()
		require.Error(t, err, set)
		require.Contains(t, string(out), message)
	}
}

// The chart can be installed, upgraded, rolled back and removed. The resource definitions and therefore the VMs
// survive. A second namespace gets its own manager.
func installs(t *testing.T, run runner) {
	c, err := cluster.Up(t.Context(), cluster.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Down(context.WithoutCancel(t.Context()))) })
	in := func(namespace string, words ...string) string {
		t.Helper()
		cmd := run(append([]string{"--kubeconfig", c.Kubeconfig, "-n", namespace}, words...)...)
		inside := c.Inside(t.Context(), cmd.Path, cmd.Args[1:]...)
		inside.Env = cmd.Env
		return output(t, inside)
	}
	kubectl := func(words ...string) string {
		t.Helper()
		out, err := c.Kubectl(t.Context(), words...)
		require.NoError(t, err)
		return strings.TrimSpace(out)
	}
	manager := func() string {
		return kubectl("get", "deployment", "vm-operator", "-n", "vmop-demo", "-o",
			"jsonpath={..containers[0].image} {.spec.replicas}")
	}
	said := in("vmop-demo", "install", "vms", ".", "--create-namespace")
	require.Contains(t, said, "create secret generic vm-operator-users")
	require.Equal(t, "vmop/manager:devel 1", manager())
	in("vmop-demo", "upgrade", "vms", ".", "--set", "tag=v2,manager.replicas=2")
	require.Equal(t, "vmop/manager:v2 2", manager())
	in("vmop-demo", "rollback", "vms")
	require.Equal(t, "vmop/manager:devel 1", manager())

	installsRunners(t, in, kubectl)
	in("second", "install", "vms", ".", "--create-namespace", "--set", "cluster=false")
	bindings := kubectl("get", "clusterrolebindings", "-o", "name")
	require.Contains(t, bindings, "vm-operator-cluster-vmop-demo")
	require.Contains(t, bindings, "vm-operator-cluster-second")

	kubectl("apply", "-n", "vmop-demo", "-f", "../../examples/first-vm/vm.yaml")
	in("vmop-demo", "uninstall", "vms")
	require.NotEmpty(t, kubectl("get", "vms", "-n", "vmop-demo", "-o", "name"))
	require.NotEmpty(t, kubectl("get", "pvc", "vmop-image-repository", "-n", "vmop-demo", "-o", "name"))
	require.Empty(t, kubectl("get", "deployments", "-n", "vmop-demo", "-o", "name"))
	require.Contains(t, kubectl("get", "clusterrolebindings", "-o", "name"), "vm-operator-cluster-second")
	in("vmop-demo", "install", "other", ".", "--take-ownership")
	require.Equal(t, "vmop/manager:devel 1", manager())
}
