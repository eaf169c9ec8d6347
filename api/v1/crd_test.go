package v1_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	v1 "vmop/api/v1"
	"vmop/test/cluster/clustertest"
)

var shared clustertest.Shared

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

// definition reads a VirtualMachine from a file.
func definition(t *testing.T, file string) *unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	require.NoError(t, err)
	object := &unstructured.Unstructured{}
	require.NoError(t, yaml.UnmarshalStrict(text, &object.Object))
	return object
}

func TestDefinitions(t *testing.T) {
	t.Parallel()
	const namespace = "vmop-demo" // the sample's namespace
	k := shared.Get(t)
	kubectl := func(args ...string) string {
		out, err := k.Kubectl(t.Context(), append([]string{"-n", namespace}, args...)...)
		require.NoError(t, err)
		return out
	}
	kubectl("create", "namespace", namespace)
	client, err := dynamic.NewForConfig(k.Config)
	require.NoError(t, err)
	vms := client.Resource(v1.GroupVersion().WithResource("vms")).Namespace(namespace)
	t.Run("the documented sample is taken as it is", func(t *testing.T) {
		created, err := vms.Create(t.Context(), definition(t, "test-vm.yaml"),
			metav1.CreateOptions{FieldValidation: "Strict"})
		require.NoError(t, err)
		var vm v1.VirtualMachine
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(created.Object, &vm))
		require.Equal(t, v1.Running, vm.Spec.VM.State)
		require.Equal(t, "8Gi", vm.Spec.VM.MaximumRAM.String())
		require.Empty(t, vm.Spec.VM.Firmware, "the class says it, or the runner")
		require.Empty(t, vm.Spec.VMType)
		require.Equal(t, "virtio-net", vm.Spec.VM.Networks[0].User.Device)
		require.Equal(t, "Block", string(*vm.Spec.VM.Disks[0].VolumeClaimTemplate.Spec.VolumeMode))
		require.Equal(t, int32(5910), vm.Spec.VM.Display.Spice.Port)
		require.Len(t, vm.Status.Conditions, 5)
		require.Equal(t, v1.PhasePending, vm.Status.Phase)
		require.Equal(t, "NotSeen", vm.Status.Reason, "if there is no manager")
		require.Equal(t, time.Unix(0, 0).UTC(), vm.Status.Conditions[0].LastTransitionTime.UTC())
	})
	t.Run("columns", func(t *testing.T) {
		_, err := vms.Patch(t.Context(), "test-vm", types.MergePatchType, []byte(`{"status": {
			"phase": "Running", "nodeName": "n1", "cpus": 2, "ram": "4Gi", "addresses": [{"address": "10.0.2.15", "from": "Pod", "source": "DHCP"}], "vmType": "standard", "uuid": "u-1", "consoleUser": "me", "conditions": [
			{"type": "RestartRequired", "status": "True", "reason": "ChangesPending", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"},
			{"type": "Migratable", "status": "False", "reason": "NotYet", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"},
			{"type": "Booted", "status": "True", "reason": "VmBooted", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}]}}`),
			metav1.PatchOptions{}, "status")
		require.NoError(t, err)
		for _, resource := range []string{"vms", "vm", "virtualmachine"} {
			table := kubectl("get", resource)
			require.Regexp(t, `^NAME      PHASE     NODE   IPADDRESS   AGE\ntest-vm +Running +n1 +10\.0\.2\.15 +\d+s\n$`, table)
		}
		table := kubectl("get", "vms", "-o", "wide")
		header, row, _ := strings.Cut(table, "\n")
		require.Equal(t, []string{
			"NAME", "PHASE", "CORES", "COREFRACTION", "MEMORY", "NEED RESTART", "AGENT", "MIGRATABLE", "NODE",
			"IPADDRESS", "AGE", "CPUS", "RAM", "REASON", "TYPE", "STATE", "CONSOLE-USER", "UUID",
		}, regexp.MustCompile(" {2,}").Split(header, -1))
		require.Regexp(t, `^test-vm +Running +4 +(100%)? +8Gi +True +True +False +n1 +10\.0\.2\.15 +\d+s +2 +4Gi +NotSeen +standard +Running +me +u-1\n$`, row)
	})
	t.Run("addresses", func(t *testing.T) { testAddresses(t, k.Namespace(t)) })
	t.Run("disks", func(t *testing.T) { testDisks(t, k.Namespace(t)) })
	t.Run("operations", func(t *testing.T) { testOperations(t, k.Namespace(t)) })
	t.Run("docs/tasks/from-…", func(t *testing.T) { testComingFrom(t, client, namespace) })
	t.Run("Deckhouse's guide", func(t *testing.T) { testDeckhouse(t, client, namespace) })
	for page, count := range map[string]int{"reference/addresses.md": 3, "reference/classes.md": 3} {
		t.Run("docs/"+page, func(t *testing.T) { testPage(t, client, k.Namespace(t).Name, page, count) })
	}
	for name, row := range refused() {
		t.Run("refused: "+name, func(t *testing.T) {
			t.Parallel()
			object := definition(t, "test-vm.yaml")
			object.SetName("bad-" + strings.ReplaceAll(strings.ToLower(name), " ", "-"))
			patch(t, object, row.patch)
			_, err := vms.Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			require.True(t, apierrors.IsInvalid(err), "%v", err)
			require.ErrorContains(t, err, row.want)
			const unchecked = "<nil>: Invalid value: null: some validation rules were not checked" // of Kubernetes
			said := strings.ReplaceAll(err.Error(), unchecked, "")
			require.NotContains(t, said, "should match", "a regular expression says nothing to who reads it")
			require.NotContains(t, said, "<nil>", "there is a field to be changed")
		})
	}
	for name, text := range accepted() {
		t.Run("taken: "+name, func(t *testing.T) {
			t.Parallel()
			object := definition(t, "test-vm.yaml")
			object.SetName("good-" + strings.ReplaceAll(strings.ToLower(name), " ", "-"))
			patch(t, object, text)
			_, err := vms.Create(t.Context(), object, metav1.CreateOptions{
				DryRun:          []string{metav1.DryRunAll},
				FieldValidation: "Strict",
			})
			require.NoError(t, err)
		})
	}
}

// patch merges YAML into an object (RFC 7386).
func patch(t *testing.T, object *unstructured.Unstructured, text string) {
	t.Helper()
	var change map[string]any
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), &change))
	encoded, err := json.Marshal(change) // numbers as the API server decodes them
	require.NoError(t, err)
	change, err = decode(encoded)
	require.NoError(t, err)
	merge(object.Object, change)
}

func decode(text []byte) (map[string]any, error) {
	object := &unstructured.Unstructured{}
	err := yaml.Unmarshal(text, &object.Object)
	return object.Object, err
}

func merge(into, change map[string]any) {
	for key, value := range change {
		section, isSection := value.(map[string]any)
		have, had := into[key].(map[string]any)
		switch {
		case value == nil:
			delete(into, key)
		case isSection && had:
			merge(have, section)
		default:
			into[key] = value
		}
	}
}

type refusal struct{ patch, want string }

// refused returns the changes that no runner could carry out, with the error message for each.
func refused() map[string]refusal {
	return map[string]refusal{
		"CPUs twice": {`{spec: {vm: {cpuTopology: {sockets: 4}}}}`, "set either maximumCpus or cpuTopology"},
		"too many CPUs now": {
			`{spec: {vm: {currentCpus: 5}}}`,
			"spec.vm.currentCpus: Invalid value: must be at most maximumCpus",
		},
		"more than topology": {
			`{spec: {vm: {maximumCpus: null, cpuTopology: {sockets: 1, coresPerDie: 2}, currentCpus: 3}}}`,
			"must be at most the number of CPUs of cpuTopology",
		},
		"zero CPUs":        {`{spec: {vm: {maximumCpus: 0}}}`, "spec.vm.maximumCpus"},
		"too much RAM now": {`{spec: {vm: {maximumRam: 8Gi, currentRam: 9Gi}}}`, "must be at most maximumRam"},
		"RAM of no size": {
			`{spec: {vm: {maximumRam: 8 gigs}}}`,
			`spec.vm.maximumRam: Invalid value: "8 gigs": must be a size such as 8Gi or 512Mi`,
		},
		"RAM in other units": {
			`{spec: {vm: {maximumRam: 2GiB}}}`,
			`spec.vm.maximumRam: Invalid value: "2GiB": must be a size such as 8Gi or 512Mi`,
		},
		"RAM with a comma": {
			`{spec: {vm: {currentRam: "1,5Gi"}}}`,
			`spec.vm.currentRam: Invalid value: "1,5Gi": must be a size such as 8Gi or 512Mi`,
		},
		"RAM without a unit": {
			`{spec: {vm: {currentRam: 2048}}}`,
			"spec.vm.currentRam: Invalid value: 2048: must be at least 1Mi; a number without a unit counts bytes",
		},
		"hardly any RAM":          {`{spec: {vm: {maximumRam: 1k, currentRam: null}}}`, "must be at least 1Mi"},
		"unknown state":           {`{spec: {vm: {state: Sleeping}}}`, `Unsupported value: "Sleeping"`},
		"unknown firmware":        {`{spec: {vm: {firmware: efi}}}`, `Unsupported value: "efi"`},
		"wrong uuid":              {`{spec: {vm: {machineUuid: abc}}}`, "spec.vm.machineUuid"},
		"negative timeout":        {`{spec: {vm: {powerdownTimeout: -1}}}`, "spec.vm.powerdownTimeout"},
		"provisioning of no type": {`{spec: {provisioning: {userData: a}}}`, "spec.provisioning.type: Required value"},
		"provisioning unknown": {
			`{spec: {provisioning: {type: Ignition}}}`,
			`spec.provisioning.type: Unsupported value: "Ignition": supported values: "UserData", "UserDataRef", "SysprepRef"`,
		},
		"provisioning without its data": {
			`{spec: {provisioning: {type: UserData}}}`,
			"spec.provisioning: Invalid value: the type UserData requires userData, and neither userDataRef nor sysprepRef",
		},
		"provisioning with a reference for a text": {
			`{spec: {provisioning: {type: UserDataRef, userData: a}}}`,
			"spec.provisioning: Invalid value: the type UserDataRef requires userDataRef, and neither userData nor sysprepRef",
		},
		"provisioning with more than its data": {
			`{spec: {provisioning: {type: SysprepRef, userData: a, sysprepRef: {kind: Secret, name: a}}}}`,
			"spec.provisioning: Invalid value: the type SysprepRef requires sysprepRef, and neither userData nor userDataRef",
		},
		"provisioning from a ConfigMap": {
			`{spec: {provisioning: {type: UserDataRef, userDataRef: {kind: ConfigMap, name: a}}}}`,
			`spec.provisioning.userDataRef.kind: Unsupported value: "ConfigMap": supported values: "Secret"`,
		},
		"provisioning without a name": {
			`{spec: {provisioning: {type: UserDataRef, userDataRef: {kind: Secret}}}}`,
			"spec.provisioning.userDataRef.name: Required value",
		},
		"provisioning and cloudInit": {
			`{spec: {cloudInit: {userData: {a: 1}}, provisioning: {type: UserData, userData: a}}}`,
			"spec.provisioning: Invalid value: cloudInit is given as well: leave one of the two out",
		},
		"network data twice": {
			`{spec: {cloudInit: {networkConfig: {version: 2}, networkDataFrom: {secretKeyRef: {name: a, key: b}}}}}`,
			"spec.cloudInit.networkDataFrom: Invalid value: networkConfig is given as well: leave one of the two out",
		},
		"data of no key": {
			`{spec: {cloudInit: {userDataFrom: {secretKeyRef: {name: a}}}}}`,
			"spec.cloudInit.userDataFrom.secretKeyRef.key: Required value",
		},
		"data of a key that is none": {
			`{spec: {cloudInit: {userDataFrom: {secretKeyRef: {name: a, key: a/b}}}}}`,
			`spec.cloudInit.userDataFrom.secretKeyRef.key: Invalid value: "a/b": must be the name of a key of a Secret`,
		},
		"run policy unknown": {
			`{spec: {runPolicy: Always}}`,
			`spec.runPolicy: Unsupported value: "Always": supported values: "AlwaysOn", "AlwaysOnUnlessStoppedManually"`,
		},
		"always on and stopped": {
			`{spec: {runPolicy: AlwaysOn, vm: {state: Stopped}}}`,
			"spec.vm.state: Invalid value: Stopped contradicts the runPolicy AlwaysOn: leave vm.state out",
		},
		"always off and running": {
			`{spec: {runPolicy: AlwaysOff, vm: {state: Running}}}`,
			"spec.vm.state: Invalid value: Running contradicts the runPolicy AlwaysOff: leave vm.state out",
		},
		"always on and stopped by the guest": {
			`{spec: {runPolicy: AlwaysOn, guestShutdownStops: true, vm: {state: Running}}}`,
			"spec.guestShutdownStops: Invalid value: true contradicts the runPolicy AlwaysOn",
		},
		"network of two kinds": {
			`{spec: {vm: {networks: [{user: {}, tap: {}}]}}}`,
			"set exactly one of tap, user and masquerade",
		},
		"network of no kind": {`{spec: {vm: {networks: [{}]}}}`, "set exactly one of tap, user and masquerade"},
		"network for one computer": { // docs/decisions/0072
			`{spec: {vm: {networks: [{passt: {}}]}}}`, "set exactly one of tap, user and masquerade",
		},
		"wrong mac": {`{spec: {vm: {networks: [{tap: {mac: "1:2:3"}}]}}}`, `spec.vm.networks[0].tap.mac: Invalid value: "1:2:3": must be six bytes such as 02:00:00:00:00:01`},
		"storage of no size": {
			`{spec: {vm: {disks: [{volumeClaimTemplate: {spec: {resources: {requests: {storage: viel}}}}}]}}}`,
			"spec.vm.disks[0].volumeClaimTemplate.spec.resources.requests: Invalid value: must be quantities: a size such as 40Gi or 512Mi, or a number of CPUs",
		},
		"CPUs of no number": {
			`{spec: {resources: {limits: {cpu: many}}}}`,
			"spec.resources.limits: Invalid value: must be quantities: a size such as 40Gi",
		},
		"clock of no time": {
			`{spec: {vm: {rtcBase: noon}}}`,
			`spec.vm.rtcBase: Invalid value: "noon": must be utc, localtime, or a time such as 2026-01-31 or 2026-01-31T12:00:00`,
		},
		"subnet": {
			`{spec: {vm: {networks: [{user: {net: 10.0.0.0}}]}}}`,
			`spec.vm.networks[0].user.net: Invalid value: "10.0.0.0": must be an IPv4 subnet such as 10.0.2.0/24`,
		},
		"port twice": {
			`{spec: {vm: {networks: [{user: {ports: [{port: 80}, {port: 80, guest: 81, protocol: TCP}]}}]}}}`,
			`spec.vm.networks[0].user.ports[1]: Duplicate value`,
		},
		"port of the runner": {
			`{spec: {vm: {networks: [{user: {ports: [{port: 7443}]}}]}}}`,
			`spec.vm.networks[0].user.ports[0].port: Invalid value: 7443 is the runner's own port`,
		},
		"port of no number": {
			`{spec: {vm: {networks: [{user: {ports: [{port: 65536}]}}]}}}`, "should be less than or equal to 65535",
		},
		"disk of two kinds": {
			`{spec: {vm: {disks: [{cdrom: {image: ""}, volumeClaimTemplate: {spec: {}}}]}}}`,
			"set exactly one of volumeClaimTemplate, cdrom and virtualDisk",
		},
		"disks of one name": {
			`{spec: {vm: {disks: [{volumeClaimTemplate: {metadata: {name: a}, spec: {}}}, {volumeClaimTemplate: {metadata: {name: a}, spec: {}}}]}}}`, "two disks have the same name",
		},
		"disks of one order": {
			`{spec: {vm: {disks: [{cdrom: {image: ""}, bootindex: 1}, {cdrom: {image: ""}, bootindex: 1}]}}}`, "two disks have the same bootindex",
		},
		"name of a disk": {
			`{spec: {vm: {disks: [{volumeClaimTemplate: {metadata: {name: My_Disk}, spec: {}}}]}}}`,
			"spec.vm.disks[0].volumeClaimTemplate.metadata.name",
		},
		"cdrom without image": {
			`{spec: {vm: {disks: [{cdrom: {}}]}}}`,
			"spec.vm.disks[0].cdrom.image: Required value",
		},
		"spice port":         {`{spec: {vm: {display: {spice: {port: 70000}}}}}`, "spec.vm.display.spice.port"},
		"vnc port":           {`{spec: {vm: {display: {vnc: {port: 80}}}}}`, "spec.vm.display.vnc.port"},
		"ports are the same": {`{spec: {vm: {display: {vnc: {port: 5910}}}}}`, "spice and vnc have the same port"},
		"no image":           {`{spec: {image: {pullPolicy: Always}}}`, "set either source, or repository and path"},
		"image twice": {
			`{spec: {image: {source: a, repository: b, path: c}}}`,
			"set either source, or repository and path",
		},
		"pull policy": {
			`{spec: {image: {source: a, pullPolicy: Sometimes}}}`,
			`Unsupported value: "Sometimes"`,
		},
		"permission without a subject": {`{spec: {permissions: [{may: [start]}]}}`, "set either user or role"},
		"permission of both":           {`{spec: {permissions: [{user: a, role: b}]}}`, "set either user or role"},
		"unknown action": {
			`{spec: {permissions: [{user: a, may: [destroy]}]}}`, `Unsupported value: "destroy"`,
		},
		"what is derived is no action": {
			`{spec: {permissions: [{user: a, may: [view]}]}}`, `Unsupported value: "view"`,
		},
		"VM type of two places": {
			`{spec: {vmType: {source: a, image: r.example/a:1, configMap: b}}}`,
			"spec.vmType.image: Invalid value: configMap is given as well: leave one of the two out",
		},
		"image without a type": {`{spec: {vmType: {image: r.example/a:1}}}`, "requires source as well"},
		"keys without an image": {
			`{spec: {vmType: {source: a, imagePullSecret: {name: b}}}}`, "are for an image",
		},
		"image with a space": {
			`{spec: {vmType: {source: a, image: r.example/a 1}}}`, "must be the name of a VM type in a registry",
		},
		"VM type as a path": {`{spec: {vmType: {source: ../../etc/passwd}}}`, `spec.vmType.source: Invalid value: "../../etc/passwd": must be the name of a VM type, such as standard`},
		"no label":          {`{metadata: {name: a.b}}`, "metadata: Invalid value: metadata.name must be a DNS label"},
		"too long a name": {
			`{metadata: {name: aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeee}}`, "at most 48 characters",
		},
		"core fraction of no percentage": {
			`{spec: {cpu: {coreFraction: "20"}}}`,
			`spec.cpu.coreFraction: Invalid value: "20": must be a whole percentage from 1% to 100%, such as 20%`,
		},
		"core fraction of nothing":  {`{spec: {cpu: {coreFraction: 0%}}}`, "must be a whole percentage"},
		"core fraction of too much": {`{spec: {cpu: {coreFraction: 101%}}}`, "must be a whole percentage"},
		"core fraction and resources": {
			`{spec: {cpu: {coreFraction: 20%}, resources: {requests: {cpu: 1}}}}`,
			"spec.resources: Invalid value: contradicts cpu.coreFraction, which says what the pod requests",
		},
		"class of no name": {
			`{spec: {virtualMachineClassName: A_b}}`,
			`spec.virtualMachineClassName: Invalid value: "A_b": must be the name of a VirtualMachineClass, such as generic`,
		},
		"no machine": {`{spec: {vm: null}}`, "spec.vm: Required value"},
		"address without tap": {
			`{spec: {virtualMachineIPAddressName: my-ip}}`,
			"spec.virtualMachineIPAddressName: Invalid value: needs a network of kind tap, which has the address: add tap to vm.networks",
		},
		"address without network": {
			`{spec: {virtualMachineIPAddressName: my-ip, vm: {networks: null}}}`,
			"spec.virtualMachineIPAddressName: Invalid value: needs a network of kind tap",
		},
		"address in place of its name": {
			`{spec: {virtualMachineIPAddressName: 10.66.10.14, vm: {networks: [{tap: {}}]}}}`,
			"must be the name of a VirtualMachineIPAddress in the VM's namespace (kubectl get vmip)",
		},
		"near what": {
			`{spec: {affinity: {virtualMachineAndPodAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: ""}]}}}}`,
			`spec.affinity.virtualMachineAndPodAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Invalid value: must be the label of nodes that defines a place, such as kubernetes.io/hostname`,
		},
		"far from what": {
			`{spec: {affinity: {virtualMachineAndPodAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {}}]}}}}`,
			"spec.affinity.virtualMachineAndPodAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required value",
		},
		"preferred near what": {
			`{spec: {affinity: {virtualMachineAndPodAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, virtualMachineAndPodAffinityTerm: {topologyKey: ""}}]}}}}`,
			`preferredDuringSchedulingIgnoredDuringExecution[0].virtualMachineAndPodAffinityTerm.topologyKey: Invalid value: must be the label of nodes`,
		},
		"no weight": {
			`{spec: {affinity: {virtualMachineAndPodAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 0, virtualMachineAndPodAffinityTerm: {topologyKey: a}}]}}}}`,
			"preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must be 1 to 100",
		},
		"too great a weight": {
			`{spec: {affinity: {virtualMachineAndPodAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 101, virtualMachineAndPodAffinityTerm: {topologyKey: a}}]}}}}`,
			"preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 101: must be 1 to 100",
		},
		"preference in words of pods": {
			`{spec: {affinity: {virtualMachineAndPodAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: a}}]}}}}`,
			"preferredDuringSchedulingIgnoredDuringExecution[0].virtualMachineAndPodAffinityTerm: Required value",
		},
	}
}

// accepted returns changes that must not be refused.
func accepted() map[string]string {
	return map[string]string{
		"always on":            `{spec: {runPolicy: AlwaysOn, guestShutdownStops: null, vm: {state: null}}}`,
		"with and without VMs": `{spec: {affinity: {podAffinity: {}, virtualMachineAndPodAffinity: {}, virtualMachineAndPodAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a, labelSelector: {matchExpressions: [{key: b, operator: Exists}]}, namespaces: [c], namespaceSelector: {}, matchLabelKeys: [d], mismatchLabelKeys: [e]}]}}}}`,
		"always off":           `{spec: {runPolicy: AlwaysOff, vm: {state: null}}}`,
		"manual":               `{spec: {runPolicy: Manual, guestShutdownStops: true}}`,
		"topology":             `{spec: {vm: {maximumCpus: null, cpuTopology: {sockets: 2, coresPerDie: 4}, currentCpus: 8}}}`,
		"CPUs of the type":     `{spec: {vm: {maximumCpus: null}}}`,
		"plain bytes":          `{spec: {vm: {maximumRam: 1073741824, currentRam: null}}}`,
		"units differ":         `{spec: {vm: {maximumRam: 1Gi, currentRam: 1073741824}}}`,
		"little":               `{spec: {vm: {maximumRam: null, currentRam: null, currentCpus: null, disks: null, networks: null, display: null}}}`,
		"all networks":         `{spec: {vm: {networks: [{tap: {bridge: br1, mac: "52:54:00:12:34:56"}}, {user: {net: 10.0.3.0/24, ports: [{port: 2222, guest: 22}, {port: 53, protocol: UDP}, {port: 53}, {port: 7443, protocol: UDP}]}}, {masquerade: {}}]}}}`,
		"address":              `{spec: {virtualMachineIPAddressName: linux-vm-7prpx, vm: {networks: [{user: {}}, {tap: {}}]}}}`,
		"cloud-init":           `{spec: {cloudInit: {metaData: {instance-id: a}, userData: {users: [{name: me}], write_files: []}, networkConfig: {version: 2}}}}`,
		"script":               `{spec: {cloudInit: {userData: "#!/bin/sh\necho hello\n", vendorData: "Content-Type: multipart/mixed"}}}`,
		"data of the vendor":   `{spec: {cloudInit: {vendorData: {users: []}}}}`,
		"quantities":           `{spec: {resources: {requests: {cpu: 2, memory: 1.5Gi}, limits: {cpu: 500m}}}}`,
		"removed labels":       `{spec: {loadBalancerService: {labels: {a: b, c: null}, annotations: {d: null}}}}`,
		"permissions":          `{spec: {permissions: [{user: me, may: ["*"]}, {role: admin, may: [start, stop, reset, accessConsole, takeConsole, resize, edit, create, delete]}, {role: idle}], pools: [a]}}`,
		"image in parts":       `{spec: {image: {repository: example.test, path: a/b, version: "1", pullPolicy: IfNotPresent}}}`,
		"options of the type":  `{spec: {vmType: {source: gaming, update: false, configMap: types}, vm: {options: {sound: true, deep: {er: [1, 2]}}}}}`,
		"type of an image":     `{spec: {vmType: {source: a, image: "r.example/a@sha256:1", imagePullSecret: {name: b}, caBundle: UEVN}}}`,
		"class":                `{spec: {virtualMachineClassName: generic, cpu: {coreFraction: 5%}, resources: null}}`,
		"all of the CPUs":      `{spec: {cpu: {coreFraction: 100%}, resources: null}}`,
		"unnamed disks":        `{spec: {vm: {disks: [{volumeClaimTemplate: {spec: {resources: {requests: {storage: 1Gi}}}}}, {volumeClaimTemplate: {spec: {}}}, {cdrom: {image: a.iso}, bootindex: 0}]}}}`,
		"scheduling":           `{spec: {nodeName: a, nodeSelector: {b: c}, priorityClassName: high, tolerations: [{operator: Exists}], affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}}}`,
		"provisioned":          `{spec: {provisioning: {type: UserData, userData: "#cloud-config"}}}`,
		"data from Secrets":    `{spec: {cloudInit: {userDataFrom: {secretKeyRef: {name: a, key: user.data}}, networkDataFrom: {secretKeyRef: {name: a, key: b}}}}}`,
	}
}
