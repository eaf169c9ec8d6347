package class_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	v1 "vmop/api/v1"
	"vmop/manager/vm/class"
)

// read parses the spec of a class or a VM.
func read[T any](t *testing.T, spec string) (object T) {
	t.Helper()
	require.NoError(t, yaml.UnmarshalStrict(fmt.Appendf(nil, "{metadata: {name: web}, spec: %s}", spec), &object))
	return object
}

// A VM's own values take precedence over its class, and both over the resource's defaults.
func TestResolve(t *testing.T) {
	t.Parallel()
	for name, row := range resolved() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, vm := read[v1.VirtualMachineClass](t, row.class), read[v1.VirtualMachine](t, row.vm)
			before := vm.DeepCopy()
			taken := class.Extract(&c, &vm)
			record, err := taken.Record()
			require.NoError(t, err)
			again, err := class.ReadRecord(record)
			require.NoError(t, err)
			resolved, err := class.Resolve(&vm, again)
			require.NoError(t, err)
			got, err := yaml.Marshal(resolved.Spec)
			require.NoError(t, err)
			want := read[v1.VirtualMachine](t, row.want)
			wanted, err := yaml.Marshal(want.Spec)
			require.NoError(t, err)
			require.Equal(t, string(wanted), string(got))
			require.Equal(t, before, &vm, "the VM is not changed")
		})
	}
}

// resolving is a class, a VM, and the expected result.
type resolving struct{ class, vm, want string }

func resolved() map[string]resolving {
	const full = `{cpu: {type: Model, model: Skylake-Server}, vmType: {source: windows, update: false, configMap: types},
		nodeSelector: {matchLabels: {a: b}, matchExpressions: [{key: c, operator: Exists}]},
		tolerations: [{key: t, operator: Exists}, {key: u, value: v}],
		sizingPolicies: [{cores: {min: 1, max: 2}, coreFractions: [5%, 50%, 20%]}, {cores: {min: 3, max: 8}, defaultCoreFraction: 10%}],
		defaults: {firmware: bios, useTpm: true, bootMenu: true, powerdownTimeout: 5, accelerator: kvm, rtcBase: localtime,
		  rtcClock: host, networks: [{masquerade: {}}], display: {outputs: 2}, options: {a: 1, b: {c: 2}}}}`
	return map[string]resolving{
		"nothing": {
			`{cpu: {type: Host}}`, `{vm: {maximumCpus: 1}}`,
			`{vm: {maximumCpus: 1, cpuModel: host, display: {outputs: 1, spice: {port: 5900}}}, vmType: {source: standard, update: true}}`,
		},
		"all of the class": {
			full, `{vm: {maximumCpus: 1}}`,
			`{vm: {maximumCpus: 1, cpuModel: Skylake-Server, firmware: bios, useTpm: true, bootMenu: true, powerdownTimeout: 5,
			  accelerator: kvm, rtcBase: localtime, rtcClock: host, networks: [{masquerade: {}}], display: {outputs: 2}, options: {a: 1, b: {c: 2}}},
			  vmType: {source: windows, update: false, configMap: types}, cpu: {coreFraction: 50%},
			  tolerations: [{key: t, operator: Exists}, {key: u, value: v}],
			  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
			    {matchExpressions: [{key: a, operator: In, values: [b]}, {key: c, operator: Exists}]}]}}}}`,
		},
		"all of the VM": {
			full, `{vm: {maximumCpus: 4, cpuModel: host, firmware: uefi, useTpm: false, bootMenu: false, powerdownTimeout: 0, accelerator: tcg,
			  rtcBase: utc, rtcClock: vm, networks: [], display: {outputs: 1}, options: {a: 2, d: 3}},
			  vmType: {source: cloud}, cpu: {coreFraction: 1%}, tolerations: [{key: u, operator: Exists}],
			  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
			    {matchExpressions: [{key: x, operator: Exists}]}, {matchFields: [{key: metadata.name, operator: In, values: [n]}]}]}}}}`,
			`{vm: {maximumCpus: 4, cpuModel: host, firmware: uefi, useTpm: false, bootMenu: false, powerdownTimeout: 0, accelerator: tcg,
			  rtcBase: utc, rtcClock: vm, networks: [], display: {outputs: 1}, options: {a: 2, b: {c: 2}, d: 3}},
			  vmType: {source: cloud, update: false}, cpu: {coreFraction: 1%},
			  tolerations: [{key: u, operator: Exists}, {key: t, operator: Exists}],
			  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
			    {matchExpressions: [{key: x, operator: Exists}, {key: a, operator: In, values: [b]}, {key: c, operator: Exists}]},
			    {matchFields: [{key: metadata.name, operator: In, values: [n]}], matchExpressions: [{key: a, operator: In, values: [b]}, {key: c, operator: Exists}]}]}}}}`,
		},
		"an image of the class": {
			`{cpu: {type: Host}, vmType: {source: a, image: r/a:1, imagePullSecret: {name: s}, caBundle: UEVN}}`,
			`{vm: {maximumCpus: 1, display: {}}}`,
			`{vm: {maximumCpus: 1, cpuModel: host, display: {}},
			  vmType: {source: a, update: true, image: r/a:1, imagePullSecret: {name: s}, caBundle: UEVN}}`,
		},
		"an image of the VM": {
			`{cpu: {type: Host}, vmType: {source: a, image: r/a:1, imagePullSecret: {name: s}}}`,
			`{vm: {maximumCpus: 1, display: {}}, vmType: {source: b, image: r/b:1}}`,
			`{vm: {maximumCpus: 1, cpuModel: host, display: {}}, vmType: {source: b, update: true, image: r/b:1}}`,
		},
		"resources are the VM's word": {
			`{cpu: {type: HostPassthrough}, sizingPolicies: [{cores: {min: 1, max: 8}, defaultCoreFraction: 10%}]}`,
			`{vm: {cpuTopology: {sockets: 2, coresPerDie: 2}, display: {}}, resources: {requests: {cpu: 1}}}`,
			`{vm: {cpuTopology: {sockets: 2, coresPerDie: 2}, display: {}, cpuModel: host}, resources: {requests: {cpu: 1}}, vmType: {source: standard, update: true}}`,
		},
		"features": {
			`{cpu: {type: Features, features: [avx2, aes]}}`, `{vm: {maximumCpus: 1, display: {}}}`,
			`{vm: {maximumCpus: 1, display: {}, cpuModel: "Nehalem,avx2=on,aes=on"}, vmType: {source: standard, update: true}}`,
		},
	}
}

func TestMismatch(t *testing.T) {
	t.Parallel()
	const policies = `{cpu: {type: Host}, sizingPolicies: [
		{cores: {min: 1, max: 2}, memory: {min: 1Gi, max: 8Gi, step: 512Mi}, coreFractions: [5%, 50%]},
		{cores: {min: 4, max: 9, step: 2}, memory: {perCore: {min: 1Gi, max: 4Gi}}, dedicatedCores: [true], defaultCoreFraction: 100%},
		{cores: {min: 16, max: 16}, dedicatedCores: [false]}]}`
	for name, row := range map[string]struct{ vm, want string }{
		"fits":               {`{vm: {maximumCpus: 2, maximumRam: 1536Mi}}`, ""},
		"says no size":       {`{vm: {}}`, ""},
		"too few cores":      {`{vm: {maximumCpus: 3, maximumRam: 4Gi}}`, "spec.vm.maximumCpus is 3: class web allows 1 to 2, 4 to 9 in steps of 2, 16; the nearest is 4"},
		"between steps":      {`{vm: {maximumCpus: 9, maximumRam: 9Gi}}`, "spec.vm.maximumCpus is 9: class web allows 1 to 2, 4 to 9 in steps of 2, 16; the nearest is 8"},
		"too many cores":     {`{vm: {maximumCpus: 64, maximumRam: 9Gi}}`, "the nearest is 16"},
		"topology":           {`{vm: {cpuTopology: {sockets: 3}, maximumRam: 4Gi}}`, "spec.vm.maximumCpus is 3"},
		"too little memory":  {`{vm: {maximumCpus: 1, maximumRam: 512Mi}}`, "spec.vm.maximumRam is 512Mi: with 1 CPUs class web allows 1Gi to 8Gi in steps of 512Mi"},
		"memory of no step":  {`{vm: {maximumCpus: 1, maximumRam: 1G}}`, "spec.vm.maximumRam is 1G"},
		"memory per core":    {`{vm: {maximumCpus: 4, maximumRam: 20Gi}}`, "spec.vm.maximumRam is 20Gi: with 4 CPUs class web allows 4Gi to 16Gi"},
		"fraction":           {`{vm: {maximumCpus: 1, maximumRam: 1Gi}, cpu: {coreFraction: 7%}}`, "spec.cpu.coreFraction is 7%: with 1 CPUs class web allows 5%, 50%"},
		"both":               {`{vm: {maximumCpus: 1, maximumRam: 16Gi}, cpu: {coreFraction: 7%}}`, "8Gi in steps of 512Mi; spec.cpu.coreFraction is 7%"},
		"fraction by":        {`{vm: {maximumCpus: 1, maximumRam: 1Gi}, resources: {requests: {cpu: 1}}}`, "spec.resources: class web sets the requests of VMs with 1 CPUs; remove this field"},
		"dedicated":          {`{vm: {maximumCpus: 4, maximumRam: 4Gi}, cpu: {coreFraction: 50%}}`, "allows only dedicated cores, which require 100%"},
		"dedicated, default": {`{vm: {maximumCpus: 4, maximumRam: 4Gi}}`, ""},
		"not dedicated":      {`{vm: {maximumCpus: 16, maximumRam: 1Gi}, cpu: {coreFraction: 100%}}`, "has no dedicated cores; use at most 99%"},
		"says nothing":       {`{vm: {maximumCpus: 16, maximumRam: 1Gi}}`, ""},
	} {
		c, vm := read[v1.VirtualMachineClass](t, policies), read[v1.VirtualMachine](t, row.vm)
		if got := class.Mismatch(&c, &vm); row.want == "" {
			require.Empty(t, got, name)
		} else {
			require.Contains(t, got, row.want, name)
		}
	}
}

func someNode(t *testing.T, name string, labels map[string]string, cpu string, taints ...corev1.Taint) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	n.Spec.Taints = taints
	t.Helper()
	require.NoError(t, yaml.Unmarshal([]byte("{cpu: "+cpu+", memory: 8Gi}"), &n.Status.Allocatable))
	return n
}

// A class lists the nodes where its VMs can run, or reports what to change so that they can run.
func TestStatus(t *testing.T) {
	t.Parallel()
	nodes := someNodes(t)
	for name, row := range looks(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, in := read[v1.VirtualMachineClass](t, row.class), class.Cluster{Nodes: nodes}
			if row.more != nil {
				row.more(&in)
			}
			s := class.Status(&c, in, time.Now())
			ready := s.Conditions[0]
			require.Equal(t, row.reason, ready.Reason, ready.Message)
			require.Contains(t, ready.Message, row.want)
			require.Equal(t, row.nodes, join(s.AvailableNodes, " "))
			require.Equal(t, row.reason == class.ReasonReady, s.Phase == v1.ClassReady)
			if s.CPUFeatures != nil || row.features != "" {
				require.Equal(t, row.features, join(s.CPUFeatures.Enabled, ","))
			}
			c.Status = s
			later := class.Status(&c, in, time.Now().Add(time.Hour))
			writes := class.Differences(&c, later, class.Use("n", nil), class.Last{}, time.Now())
			require.False(t, writes.Status, "two managers say the same")
		})
	}
	c := read[v1.VirtualMachineClass](t, `{cpu: {type: Host}, tolerations: [{key: gpu, operator: Exists}]}`)
	most := class.Status(&c, class.Cluster{Nodes: nodes}, time.Now()).MaxAllocatableResources
	require.Equal(t, "8", most.Cpu().String())
}

// look is a class and its expected status for some nodes.
type look struct {
	class, nodes string
	reason, want string
	features     string
	more         func(*class.Cluster)
}

func someNodes(t *testing.T) []*corev1.Node {
	t.Helper()
	gpu := corev1.Taint{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}
	cordoned := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	away := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	feature := func(names ...string) map[string]string {
		labels := map[string]string{"kubernetes.io/arch": "amd64"}
		for _, n := range names {
			labels[class.FeatureLabel+n] = "true"
		}
		return labels
	}
	return []*corev1.Node{
		someNode(t, "c", feature("AVX2", "AESNI", "HYPERVISOR"), "8", gpu),
		someNode(t, "a", feature("AVX2", "AESNI", "AVX512F"), "4", away),
		someNode(t, "b", feature("AVX2"), "16", cordoned),
	}
}

func looks(t *testing.T) map[string]look {
	t.Helper()
	return map[string]look{
		"host": {class: `{cpu: {type: Host}}`, nodes: "a", reason: class.ReasonReady},
		"tolerated": {
			class: `{cpu: {type: Host}, tolerations: [{operator: Exists}]}`,
			nodes: "a b c", reason: class.ReasonReady,
		},
		"tolerated value": {
			class: `{cpu: {type: Host}, tolerations: [{key: gpu, value: ""}]}`,
			nodes: "a c", reason: class.ReasonReady,
		},
		"no such nodes": {
			class:  `{cpu: {type: Host}, nodeSelector: {matchLabels: {x: y}}}`,
			reason: class.ReasonNoNodes, want: "none of the 3 nodes",
		},
		"no such label": {
			class:  `{cpu: {type: Host}, nodeSelector: {matchLabels: {"x y": z}}}`,
			reason: class.ReasonSelector, want: "spec.nodeSelector: x y: ",
		},
		"features": {
			class: `{cpu: {type: Features, features: [aes, popcnt]}, tolerations: [{operator: Exists}]}`,
			nodes: "a c", reason: class.ReasonReady, features: "aes",
		},
		"discovery": {
			class: `{cpu: {type: Discovery}, tolerations: [{operator: Exists}]}`,
			nodes: "a b c", reason: class.ReasonReady, features: "avx2",
		},
		"discovery of some": {
			class: `{cpu: {type: Discovery, discovery: {nodeSelector: {matchExpressions: [{key: feature.node.kubernetes.io/cpu-cpuid.AESNI, operator: Exists}]}}},
				tolerations: [{operator: Exists}]}`, nodes: "a c", reason: class.ReasonReady, features: "aes,avx2",
		},
		"discovery without labels": {
			class:  `{cpu: {type: Discovery}}`,
			reason: class.ReasonNoFeatureLabels, want: "install node-feature-discovery",
			more: func(c *class.Cluster) { c.Nodes = append(c.Nodes, someNode(t, "bare", nil, "1")) },
		},
		"nodes unknown": {
			class: `{cpu: {type: Host}}`, reason: class.ReasonNodesUnknown, want: "may not",
			more: func(c *class.Cluster) { c.NodesUnknown = "it may not" },
		},
		"fault": {
			class: `{cpu: {type: Host}}`, nodes: "a", reason: class.ReasonDefaults, want: "spec.defaults.options.x",
			more: func(c *class.Cluster) { c.Fault = "spec.defaults.options.x: unknown" },
		},
	}
}

func join(all []string, with string) (s string) {
	for i, one := range all {
		if i > 0 {
			s += with
		}
		s += one
	}
	return s
}

// Discovered features stay when other nodes are added, and VMs run only on matching nodes.
func TestDiscoveredStays(t *testing.T) {
	t.Parallel()
	c := read[v1.VirtualMachineClass](t, `{cpu: {type: Discovery}}`)
	require.NotEmpty(t, class.Usable(&c))
	labels := func(f string) map[string]string { return map[string]string{class.FeatureLabel + f: "true"} }
	one := someNode(t, "one", labels("SSE42"), "1")
	c.Status = class.Status(&c, class.Cluster{Nodes: []*corev1.Node{one}}, time.Now())
	c.Status.ObservedGeneration = 1
	require.Empty(t, class.Usable(&c))
	two := someNode(t, "two", labels("AVX"), "1")
	next := class.Status(&c, class.Cluster{Nodes: []*corev1.Node{one, two}}, time.Now())
	require.Equal(t, []string{"sse4.2"}, next.CPUFeatures.Enabled)
	require.Equal(t, []string{"one"}, next.AvailableNodes)
	taken := class.Extract(&c, &v1.VirtualMachine{})
	require.Equal(t, "Nehalem,sse4.2=on", taken.CPUModel)
	require.Equal(t, map[string]v1.LabelValue{class.FeatureLabel + "SSE42": "true"}, taken.NodeSelector.MatchLabels)
}

// The newest of several default classes is used, and all of them report the conflict.
func TestDefault(t *testing.T) {
	t.Parallel()
	var all []*v1.VirtualMachineClass
	for i, name := range []string{"old", "new", "other"} {
		c := &v1.VirtualMachineClass{}
		c.Name, c.CreationTimestamp = name, metav1.Unix(int64(i), 0)
		if name != "other" {
			c.Annotations = map[string]string{v1.AnnotationDefaultClass: "true"}
		}
		all = append(all, c)
	}
	c, names := class.DefaultOf(all)
	require.Equal(t, "new", c.Name)
	in := class.Cluster{Default: c.Name, Defaults: names}
	for i, status := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionTrue} {
		said := class.Status(all[i], in, time.Now()).Conditions[1]
		require.Equal(t, status, said.Status)
		require.Contains(t, said.Message, "new, old; new VMs get the newest, new")
	}
	require.Len(t, class.Status(all[2], in, time.Now()).Conditions, 1)
}

// Writes that protect a class happen immediately; merely informative writes wait for a pause.
func TestWritesPause(t *testing.T) {
	t.Parallel()
	now := time.Now()
	c := read[v1.VirtualMachineClass](t, `{cpu: {type: Host}}`)
	differences := func(want v1.VirtualMachineClassStatus, use v1.ClassUse, last class.Last) class.Writes {
		return class.Differences(&c, want, use, last, now)
	}
	use := class.Use("a", []string{"y", "x"})
	require.Equal(t, class.Writes{Use: true, Protect: true}, differences(c.Status, use, class.Last{Use: now}))
	c.Finalizers = []string{class.Finalizer("a")}
	c.Status.UsedBy = []v1.ClassUse{use, class.Use("b", []string{"z"})}
	require.Zero(t, differences(c.Status, use, class.Last{}))
	more, later := class.Use("a", []string{"x", "y", "z"}), class.Writes{Again: now.Add(10 * time.Second)}
	require.Equal(t, later, differences(c.Status, more, class.Last{Use: now}))
	none := class.Use("a", nil)
	require.Equal(t, class.Writes{Use: true, Protect: true}, differences(c.Status, none, class.Last{Use: now}))
	other := c.Status
	other.AvailableNodes = []string{"n"}
	later = class.Writes{Again: now.Add(30 * time.Second)}
	require.Equal(t, later, differences(other, use, class.Last{Status: now}),
		"managers that say different things don't take turns at once")
	c.DeletionTimestamp, c.Finalizers = &metav1.Time{Time: now}, nil
	require.False(t, differences(c.Status, use, class.Last{}).Protect, "the API server allows no new finalizer")
}

// Sizes describes each sizing policy in words.
func TestSizes(t *testing.T) {
	t.Parallel()
	c := &v1.VirtualMachineClass{}
	require.Nil(t, class.Sizes(c))
	require.NoError(t, yaml.UnmarshalStrict([]byte(`
sizingPolicies:
- {cores: {min: 1, max: 1}}
- {cores: {min: 2, max: 4}, memory: {min: 1Gi, max: 16Gi, step: 512Mi}}
- {cores: {min: 6, max: 16, step: 2}, memory: {perCore: {min: 1Gi, max: 4Gi}}}
- {cores: {min: 32, max: 32}, memory: {max: 64Gi, perCore: {min: 1Gi}}}
- {cores: {min: 64, max: 65}, memory: {step: 1Gi}}
`), &c.Spec))
	require.Equal(t, []string{
		"1 CPU", "2 to 4 CPUs with RAM of 1Gi to 16Gi in steps of 512Mi",
		"6 to 16 CPUs in steps of 2 with RAM of 1Gi to 4Gi for each CPU",
		"32 CPUs with RAM of at most 64Gi, at least 1Gi for each CPU",
		"64 to 65 CPUs with RAM of any size in steps of 1Gi",
	}, class.Sizes(c))
}

// A form offers the core fractions that the class allows, and the fraction that applies if the user selects none.
func TestFractions(t *testing.T) {
	t.Parallel()
	all := []v1.CoreFraction{"100%", "5%", "50%"}
	for _, row := range []struct {
		of      v1.SizingPolicy
		allowed []string
		preset  string
	}{
		{v1.SizingPolicy{}, nil, ""},
		{v1.SizingPolicy{CoreFractions: all}, []string{"5%", "50%", "100%"}, "100%"},
		{v1.SizingPolicy{CoreFractions: all, DefaultCoreFraction: "5%"}, []string{"5%", "50%", "100%"}, "5%"},
		{v1.SizingPolicy{CoreFractions: all, DedicatedCores: []bool{false}}, []string{"5%", "50%"}, "100%"},
		{v1.SizingPolicy{CoreFractions: all, DedicatedCores: []bool{true}}, []string{"100%"}, "100%"},
		{
			v1.SizingPolicy{CoreFractions: all, DedicatedCores: []bool{true, false}},
			[]string{"5%", "50%", "100%"},
			"100%",
		},
	} {
		allowed, preset := class.Fractions(&row.of)
		require.Equal(t, row.allowed, allowed)
		require.Equal(t, row.preset, preset)
	}
}
