package chart_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"vmop/runner/config"
	"vmop/test/program"
	"vmop/vmspec"
)

const runnerChart = "../runner-chart"

// The chart for a single runner renders the objects of examples/runner-pod. Values change them.
func runsAlone(t *testing.T, run runner) {
	const example = "../../examples/runner-pod"
	require.NoError(t, program.LookInto(example))
	require.NoError(t, program.LookInto(runnerChart))
	require.Contains(t, output(t, run("lint", "--strict", runnerChart)), "0 chart(s) failed")
	chart := plain(t, read(t, output(t, run("template", "demo", runnerChart))))
	base := plain(t, read(t, output(t, exec.CommandContext(t.Context(), "kubectl", "kustomize", example))))
	delete(base, "Namespace/vmop-runner") // Helm has --create-namespace
	require.Len(t, chart, len(base))
	for key, o := range base {
		require.Equal(t, o.Object, chart[key].Object, key)
	}

	for values, message := range map[string]string{
		"vm.disks[0].size=1Gi,vm.disks[0].device=/dev/vg/lv": "vm.host: which node has the devices of vm.disks?",
		"vm.networks[0].bridge.name=br1":                     "a bridge of the node needs privileged: true",
		"service.type=NodePort":                              "the VM has no SPICE display",
		"vm.disks[0].devise=/dev/vg/lv":                      "additional properties 'devise' not allowed",
		"host=node1":                                         "additional properties 'host' not allowed",
	} {
		out, err := run("template", "demo", runnerChart, "--set", values).CombinedOutput()
		require.Error(t, err, values)
		require.Contains(t, string(out), message)
	}
}

// runnerValues contains values from VM-Operator's chart and all values that only this chart has.
const runnerValues = `
image: {repository: registry.example/vmop, path: ours, version: "sha256:0123", pullPolicy: Always}
imagePullSecrets: [a]
vm:
  machineUuid: 9f1dcc28-6f4c-4a1f-8d2f-6f0c9f6a4d11
  host: node1
  useTpm: true
  firmware: uefi
  cpuModel: host
  maximumCpus: 4
  currentCpus: 2
  maximumMemory: 4Gi
  currentMemory: 2Gi
  rtcBase: localtime
  spicePort: 5901
  spiceTicket: 12345
  streamingVideo: all
  disks:
  - {device: /dev/vg/lv, size: 40Gi}
  - {size: 5Gi, storageClassName: fast}
  networks:
  - bridge: {}
  - bridge: {name: br1, mac: "52:54:00:12:34:56"}
  powerdownTimeout: 60
  drives: [{type: ide-cd, file: /images/installer.iso}]
cloudInit: {metaData: {instance-id: one}, userData: {hostname: one}}
config: {vmType: legacy-bios}
privileged: true
resources: {requests: {memory: 5Gi}, limits: {vmop/kvm: 1}}
data: {size: 2Gi, storageClassName: slow}
service: {type: LoadBalancer, annotations: {c: d}}
nodeSelector: {disk: fast}
tolerations: [{key: vms}]
extraVolumes: [{name: images, persistentVolumeClaim: {claimName: images}}]
extraVolumeMounts: [{name: images, mountPath: /images}]
`

// Each value of the runner's chart reaches the field that it configures, and the runner accepts its configuration.
func takesRunnerValues(t *testing.T, run runner) {
	cmd := run("template", "-n", "ns", "one", runnerChart, "-f", "-")
	cmd.Stdin = strings.NewReader(runnerValues)
	text := output(t, cmd)
	all := read(t, text)
	files, _, err := unstructured.NestedStringMap(all["ConfigMap/one"].Object, "data")
	require.NoError(t, err)
	c, warnings, err := config.Parse("config.yaml", []byte(files["config.yaml"]))
	require.NoError(t, err, files["config.yaml"])
	require.Empty(t, warnings)
	vm := c.VM
	require.Equal(t, "legacy-bios", c.VMType)
	require.NotNil(t, c.CloudInit)
	require.Equal(t, "one", vm.Name)
	require.Equal(t, "9f1dcc28-6f4c-4a1f-8d2f-6f0c9f6a4d11", vm.UUID)
	require.Equal(t, []int{4, 2, 60}, []int{vm.MaximumCPUs, vm.CurrentCPUs, int(*vm.PowerdownTimeout)})
	require.Equal(t, []vmspec.Bytes{4 << 30, 2 << 30}, []vmspec.Bytes{vm.MaximumRAM, vm.CurrentRAM})
	require.Equal(t, "all", vm.Display.Spice.StreamingVideo)
	require.Equal(t, []string{"", "br1"}, []string{vm.Network[0].Bridge, vm.Network[1].Bridge})
	require.Equal(t, "52:54:00:12:34:56", vm.Network[1].MAC)
	require.Equal(t, []string{"/dev/disk-0", "/dev/disk-1", ""},
		[]string{vm.Drives[0].Device, vm.Drives[1].Device, vm.Drives[2].Device})
	require.NotContains(t, files["config.yaml"], "tcg", "the node's KVM is there")

	var pod corev1.Pod
	written, err := all["Pod/one"].MarshalJSON()
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(written, &pod))
	container := pod.Spec.Containers[0]
	require.Equal(t, "registry.example/vmop/ours@sha256:0123", container.Image)
	require.Equal(t, corev1.PullAlways, container.ImagePullPolicy)
	require.Equal(t, "a", pod.Spec.ImagePullSecrets[0].Name)
	require.EqualValues(t, 95, *pod.Spec.TerminationGracePeriodSeconds)
	require.Contains(t, container.Env, corev1.EnvVar{Name: "POD_GRACE_PERIOD", Value: "95"})
	require.True(t, *container.SecurityContext.Privileged)
	require.True(t, pod.Spec.HostNetwork)
	require.Equal(t, "5Gi", container.Resources.Requests.Memory().String())
	require.Equal(t, "500m", container.Resources.Requests.Cpu().String(), "what isn't given stays")
	require.Contains(t, container.VolumeDevices, corev1.VolumeDevice{Name: "disk-1", DevicePath: "/dev/disk-1"})
	require.Equal(t, "fast", pod.Spec.NodeSelector["disk"])
	require.Equal(t, "vms", pod.Spec.Tolerations[0].Key)
	require.Equal(t, "/images", container.VolumeMounts[len(container.VolumeMounts)-1].MountPath)
	require.Equal(t, "one-display-secret", pod.Spec.Volumes[0].Projected.Sources[1].Secret.Name)
	secret, _, err := unstructured.NestedStringMap(all["Secret/one-display-secret"].Object, "stringData")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"display-password": "12345"}, secret)
	for key, line := range map[string]string{
		"PersistentVolume/one-pv-0": "path: /dev/vg/lv\n", "PersistentVolumeClaim/one-pvc-0": "storage: 40Gi\n",
		"PersistentVolumeClaim/one-pvc-1": "storageClassName: fast\n", "Service/one": "port: 5901\n",
		"PersistentVolumeClaim/one-data": "storage: 2Gi\n",
	} {
		require.Contains(t, all, key)
		text, err := yaml.Marshal(all[key].Object)
		require.NoError(t, err)
		require.Contains(t, string(text), line)
	}
	cmd = run("template", "one", runnerChart, "--set", "displaySecret=theirs")
	require.Contains(t, output(t, cmd), "name: theirs\n")
}

// installsRunners requires that the API server accepts the pods of runners, before and after changes, and that removal
// keeps the stored data.
func installsRunners(
	t *testing.T, in func(namespace string, words ...string) string, kubectl func(words ...string) string,
) {
	t.Helper()
	values := filepath.Join(t.TempDir(), "values.yaml")
	require.NoError(t, os.WriteFile(values, []byte(runnerValues), 0o600))
	for _, release := range []struct {
		words  []string
		claims string
	}{
		{[]string{"demo"}, "demo-data"},
		{[]string{"one", "-f", values}, "one-data one-pvc-0 one-pvc-1"},
	} {
		name := release.words[0]
		said := in(name, append([]string{"install", "--create-namespace"}, append(release.words, runnerChart)...)...)
		require.Contains(t, said, "kubectl -n "+name+" exec -it "+name+" -- vmrunner console\n")
		in(name, append([]string{"upgrade", "--set", "vm.currentCpus=1"}, append(release.words, runnerChart)...)...)
		require.Contains(t, kubectl("get", "configmap", name, "-n", name, "-o", "yaml"), "currentCpus: 1\n")
		in(name, "uninstall", name)
		require.Empty(t, kubectl("get", "pods", "-n", name, "-o", "name"))
		require.Equal(t, release.claims, kubectl("get", "pvc", "-n", name, "-o", "jsonpath={.items[*].metadata.name}"))
		in(name, append([]string{"install"}, append(release.words, runnerChart)...)...)
	}
}
