package takeover_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	v1 "vmop/api/v1"
	"vmop/manager"
	"vmop/manager/vm/takeover"
)

// objectsOf parses YAML documents.
func objectsOf(t *testing.T, text string) (all []unstructured.Unstructured) {
	t.Helper()
	for document := range strings.SplitSeq(text, "\n---\n") {
		var u unstructured.Unstructured
		require.NoError(t, yaml.Unmarshal([]byte(document), &u.Object))
		all = append(all, u)
	}
	return all
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

// assessed returns the report about a namespace and its subjects by the names of VMs and pools.
func assessed(t *testing.T, text string, trusted ...string) (*takeover.Report, map[string]takeover.Subject) {
	t.Helper()
	n, err := takeover.Sort(objectsOf(t, text))
	require.NoError(t, err)
	settings := manager.Defaults().Settings
	settings.Image, settings.Trust.Claims = "registry.example/vmop/runner:1", trusted
	settings.Trust.Bridges = []string{"br0"}
	r := takeover.Assess(n, takeover.Options{Settings: settings})
	of := map[string]takeover.Subject{}
	for _, s := range r.Subjects {
		of[s.Name] = s
	}
	return r, of
}

// with returns a subject's findings with an effect, each as "path: message".
func with(s takeover.Subject, effect takeover.Effect) (all []string) {
	for _, f := range s.Findings {
		if f.Effect == effect {
			all = append(all, f.Path+": "+f.Message)
		}
	}
	return all
}

// matches requires that each text contains the corresponding wanted text.
func matches(t *testing.T, want, got []string) {
	t.Helper()
	require.Len(t, got, len(want), "%q", got)
	for i := range want {
		require.Contains(t, got[i], want[i])
	}
}

// Objects of VM-Operator 4 are kept, with the claims that it has named, and obstacles are reported with their field.
func TestNamespace(t *testing.T) {
	t.Parallel()
	r, of := assessed(t, read(t, "testdata/namespace.yaml"))
	require.Equal(t, []string{"vm-operator"}, r.Managers)
	require.True(t, r.Blocked())

	vm := of["test-vm"]
	require.Equal(t, "test-vm", vm.RunsIn)
	require.False(t, vm.Blocked(), "%v", vm.Findings)
	matches(t, []string{
		"it runs in the pod test-vm of VM-Operator, and gets no other",
		"the runner's data: the claim test-vm-runner-data",
		"spec.vm.disks[0].volumeClaimTemplate: the claim test-vm-system-disk",
		"spec.vm.disks[2].volumeClaimTemplate: the claim test-vm-disk-1",
		"the display's password: the Secret test-vm-display-secret",
	}, with(vm, takeover.Kept))
	matches(t, []string{"spec.cloudInit.metaData.instance-id: it changes once"}, with(vm, takeover.Changes))
	require.Equal(t, "v7 prevents that", vm.Findings[len(vm.Findings)-1].Hint)
	require.Equal(t, []string{"runner-data-old-0", "test-vm-runner-data"}, r.TrustedClaims)
	matches(t, []string{"2 claims have files of VM-Operator's runners"}, with(of["vm-operator"], takeover.Blocks))

	old := of["old"]
	require.True(t, old.StatefulSet)
	matches(t, []string{"spec.runnerTemplate.source: windows.ftl.yaml is a template of VM-Operator"},
		with(old, takeover.Blocks))
	matches(t, []string{
		"the runner's data: the claim runner-data-old-0", "the claim root-disk-old-0",
	}, with(old, takeover.Kept))
	matches(t, []string{
		"its StatefulSet is of a VM-Operator before 3.4",
		"spec.vm.currentCpus: the guest gets all 4 CPUs",
		"spec.vm.cpuTopology: the guest gets it",
		"spec.runnerTemplate.update: the template that VM-Operator has saved",
		"streamingVideo: it takes effect",
		"server and proxyUrl have no effect",
		"spec.vm.disks[0].volumeClaimTemplate.metadata.labels: the claim gets them",
	}, with(old, takeover.Changes))

	bare := of["bare"]
	matches(t, []string{
		"spec.vm.disks[1].volumeClaimTemplate.metadata.name: two disks have the same name",
		"spec.image: it is VM-Operator's runner",
	}, with(bare, takeover.Blocks))
	require.Contains(t, strings.Join(with(bare, takeover.Changes), "\n"), "spec.colour: has no meaning here")
	require.Contains(t, strings.Join(with(bare, takeover.Changes), "\n"), "the guest has no network card")

	require.False(t, new(of["test-pool"]).Blocked())
	matches(t, []string{"spec.retention: "}, with(of["yearly"], takeover.Blocks))
	text, err := yaml.Marshal(r)
	require.NoError(t, err)
	require.NotContains(t, string(text), "c2VjcmV0LXdvcmQ", "no password is repeated")
}

// Trusted claims in the configuration don't block the takeover.
func TestTrustedClaims(t *testing.T) {
	t.Parallel()
	r, of := assessed(t, read(t, "testdata/namespace.yaml"), "test-vm-runner-data", "runner-data-old-0")
	require.Empty(t, r.TrustedClaims)
	require.False(t, new(of["vm-operator"]).Blocked())
}

// A disk with a missing claim gets an empty claim even if the VM has other claims, and invalid names are refused.
func TestClaimsThatAreMissing(t *testing.T) {
	t.Parallel()
	text := read(t, "testdata/namespace.yaml")
	_, of := assessed(t, strings.ReplaceAll(text, "name: test-vm-system-disk", "name: other-system-disk"))
	require.Contains(t, strings.Join(with(of["test-vm"], takeover.Changes), "\n"), "is created, and is empty")

	_, of = assessed(t, strings.ReplaceAll(text, "metadata: {name: bare,", "metadata: {name: web.example.org,"))
	require.Contains(t, with(of["web.example.org"], takeover.Blocks)[0], "metadata.name: must be a DNS label")
}

// Our manager's pods, Deployment and StatefulSet aren't taken for VM-Operator's.
func TestOurs(t *testing.T) {
	t.Parallel()
	text := read(t, "testdata/namespace.yaml")
	for _, change := range [][2]string{
		{
			"  name: test-vm\n  namespace: vmop-demo\n  labels:\n",
			"  name: test-vm-0\n  namespace: vmop-demo\n  labels:\n",
		},
		{"[{name: test-vm, image:", "[{name: runner, image:"},
		{
			`image: "ghcr.io/mnlipp/org.jdrupes.vmoperator.manager:latest"`,
			"image: vmop, env: [{name: VMOP_RUNNER_IMAGE, value: x}]",
		},
		{"  name: old\n  namespace: vmop-demo\n", "  name: old\n  annotations: {vmoperator.jdrupes.org/applied: x}\n"},
	} {
		require.Contains(t, text, change[0])
		text = strings.ReplaceAll(text, change[0], change[1])
	}
	r, of := assessed(t, text)
	require.Empty(t, r.Managers)
	require.Empty(t, of["test-vm"].RunsIn)
	require.False(t, of["old"].StatefulSet)
}

// The converted configuration has the same meaning as VM-Operator's, with the current names.
func TestConvert(t *testing.T) {
	t.Parallel()
	was := read(t, "testdata/config.yaml")
	before, warnings, err := manager.Parse("config.yaml", []byte(was))
	require.NoError(t, err)
	require.Len(t, warnings, 3)
	made, err := takeover.Convert(was, []string{"web-runner-data"})
	require.NoError(t, err)
	after, warnings, err := manager.Parse("config.yaml", []byte(made))
	require.NoError(t, err, made)
	require.Empty(t, warnings)
	require.Equal(t, []string{"web-runner-data"}, after.Settings.Trust.Claims)
	after.Settings.Trust.Claims = before.Settings.Trust.Claims
	before.Unused, after.Unused = nil, nil // paths, some of them renamed
	require.Equal(t, before, after)
	again, err := takeover.Convert(made, []string{"web-runner-data"})
	require.NoError(t, err)
	require.Equal(t, made, again)

	nothing, err := takeover.Convert(`"/Manager": {"/Controller": {"/Reconciler": {runnerData: null}}}`, nil)
	require.NoError(t, err)
	require.Equal(t, "{}\n", nothing)
	underscored, err := takeover.Convert("_Manager: {_GuiHttpServer: {port: 8081}}", nil)
	require.NoError(t, err)
	require.Equal(t, "/Manager/GuiSocketServer:\n  port: 8081\n", underscored)
	_, err = takeover.Convert("[", nil)
	require.Error(t, err)
}

// The report includes the results of checking the VM's type.
func TestType(t *testing.T) {
	t.Parallel()
	n, err := takeover.Sort(objectsOf(t, read(t, "testdata/namespace.yaml")))
	require.NoError(t, err)
	r := takeover.Assess(n, takeover.Options{
		Settings: manager.Defaults().Settings,
		Check: func(vm *v1.VirtualMachine, _ map[string]string) []takeover.Finding {
			require.Equal(t, "standard", vm.Spec.VMType.Source)
			return []takeover.Finding{{Effect: takeover.Blocks, Path: "spec.vm.cpuModel", Message: "no"}}
		},
	})
	require.Contains(t, with(r.Subjects[2], takeover.Blocks), "spec.vm.cpuModel: no")
}

// Any error in a VM is reported with its field.
func TestFaults(t *testing.T) {
	t.Parallel()
	text := read(t, "testdata/namespace.yaml")
	for name, change := range map[string]struct {
		from, to string
		effect   takeover.Effect
		want     string
	}{
		"a shape": {"maximumCpus: 4", "maximumCpus: {}", takeover.Blocks, "it can't be read"},
		"two sizes": {
			"maximumCpus: 4", "maximumCpus: 4\n    cpuTopology: {sockets: 2}", takeover.Blocks,
			"spec.vm: set either maximumCpus or cpuTopology",
		},
		"a scheme": {"debian-12.iso", "ftp://example.org/x.iso", takeover.Blocks, "spec.vm.disks[3].cdrom.image: is"},
		"no labels": {
			"labels: {app.kubernetes.io/name: vm-runner, app.kubernetes.io/instance: test-vm, ", "labels: {",
			takeover.Blocks, "spec.vm.disks[0].volumeClaimTemplate: the claim test-vm-system-disk does not have",
		},
		"an image": {
			"ghcr.io/mnlipp/org.jdrupes.vmoperator.runner.qemu-arch:latest\", pull", "registry.example/own:1\", pull",
			takeover.Changes, "spec.image: it must contain vmrunner",
		},
		"no service": {
			"{labels: {label1: label1}, annotations: {metallb.universe.tf/loadBalancerIPs: 192.168.168.1}}", "{}",
			takeover.Changes, "spec.loadBalancerService: an existing Service is removed",
		},
	} {
		require.Contains(t, text, change.from, name)
		_, of := assessed(t, strings.ReplaceAll(text, change.from, change.to))
		require.Contains(t, strings.Join(with(of["test-vm"], change.effect), "\n"), change.want, name)
	}
	_, of := assessed(t, strings.ReplaceAll(text, "    maximumCpus: 4\n", ""))
	require.NotContains(t, with(of["test-vm"], takeover.Blocks), "spec.vm: set either maximumCpus or cpuTopology")
	_, of = assessed(t, strings.ReplaceAll(text, `retention: "PT1m"`, "retention: [1]"))
	require.True(t, new(of["test-pool"]).Blocked())
	original := "ghcr.io/mnlipp/org.jdrupes.vmoperator.manager:latest"
	r, _ := assessed(t, strings.ReplaceAll(text, original, "mirror/manager"))
	require.Equal(t, []string{"vm-operator"}, r.Managers, "by its name")
	_, err := takeover.Sort(objectsOf(t, "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: x}, spec: 1}"))
	require.ErrorContains(t, err, "read StatefulSet x: ")
}
