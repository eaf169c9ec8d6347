package class

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "vmop/api/v1"
)

// baseModel is the CPU model that features are added to. All server CPUs since 2008 have its features, and most
// distributions need them (x86-64-v2).
const baseModel = "Nehalem"

// FeatureLabel is the prefix of node-feature-discovery's labels for the CPU features of a node.
const FeatureLabel = "feature.node.kubernetes.io/cpu-cpuid."

// cpuModel returns QEMU's -cpu for a class.
func cpuModel(c *v1.VirtualMachineClass) string {
	cpu, base := &c.Spec.CPU, c.Spec.CPU.Model
	fillText(&base, baseModel)
	switch cpu.Type {
	case v1.CPUModel:
		return cpu.Model
	case v1.CPUFeatures:
		for _, f := range cpu.Features {
			base += "," + string(f) + "=on"
		}
		return base
	case v1.CPUDiscovery:
		for _, f := range valueOf(c.Status.CPUFeatures).Enabled {
			base += "," + f + "=on"
		}
		return base
	}
	return "host"
}

// withFeatures returns the node selector of a class, plus the labels of the features in its status.
func withFeatures(c *v1.VirtualMachineClass) *v1.NodeLabels {
	features := valueOf(c.Status.CPUFeatures).Enabled
	if len(features) == 0 {
		return c.Spec.NodeSelector
	}
	all := valueOf(c.Spec.NodeSelector)
	all.MatchLabels = maps.Clone(all.MatchLabels)
	if all.MatchLabels == nil {
		all.MatchLabels = map[string]v1.LabelValue{}
	}
	for _, f := range features {
		all.MatchLabels[FeatureLabel+labelOf(f)] = "true"
	}
	return &all
}

// labelledFeatures maps labels to QEMU's feature names where the two differ in more than case. Labels of features that
// QEMU doesn't know, or that a guest can't use, are ignored.
//
// See https://nfd.sigs.k8s.io/usage/features and QEMU's qemu-system-x86_64 -cpu help.
func labelledFeatures() map[string]string {
	return map[string]string{
		"AESNI": "aes", "FMA3": "fma", "SHA": "sha-ni", "LZCNT": "abm", "SSE3": "pni", "SSE4": "sse4.1",
		"SSE42": "sse4.2", "AVXVNNI": "avx-vnni", "AVX512BF16": "avx512-bf16", "AVX512FP16": "avx512-fp16",
		"AVX512VPOPCNTDQ": "avx512-vpopcntdq", "TSXLDTRK": "tsx-ldtrk", "AMXTILE": "amx-tile",
		"AMXINT8": "amx-int8", "AMXBF16": "amx-bf16",
	}
}

// likeLabels returns the features with the same name in QEMU as in the label, but in lower case.
func likeLabels() []string {
	return strings.Fields(`adx avx avx2 avx512f avx512bw avx512cd avx512dq avx512vl avx512ifma avx512vbmi avx512vbmi2
		avx512vnni avx512bitalg bmi1 bmi2 cldemote cx16 erms f16c fma4 fsrm gfni movbe movdiri movdir64b popcnt rdrand
		rdseed serialize sse4a ssse3 tbm vaes vpclmulqdq waitpkg xop xsave xsavec xsaveopt xsaves`)
}

// featureOf returns QEMU's name of the feature in a label, or "" for other labels.
func featureOf(label string) string {
	if name := labelledFeatures()[label]; name != "" {
		return name
	}
	if name := strings.ToLower(label); slices.Contains(likeLabels(), name) {
		return name
	}
	return ""
}

// labelOf is the inverse of featureOf.
func labelOf(feature string) string {
	for label, name := range labelledFeatures() {
		if name == feature {
			return label
		}
	}
	if slices.Contains(likeLabels(), feature) {
		return strings.ToUpper(feature)
	}
	return ""
}

// featuresOf returns the features in the labels of a node. labels reports whether the node has any feature labels.
func featuresOf(node *corev1.Node) (features map[string]bool, labels bool) {
	features = map[string]bool{}
	for key, value := range node.Labels {
		name, is := strings.CutPrefix(key, FeatureLabel)
		if !is {
			continue
		}
		labels = true
		if f := featureOf(name); f != "" && value == "true" {
			features[f] = true
		}
	}
	return features, labels
}

// discoverFeatures returns the common features of nodes. It returns nil, and the names of the affected nodes, if the
// features of some nodes are unknown.
func discoverFeatures(nodes []*corev1.Node) (found *v1.DiscoveredFeatures, unknown []string) {
	count := map[string]int{}
	for _, node := range nodes {
		features, labels := featuresOf(node)
		if !labels {
			unknown = append(unknown, node.Name)
		}
		for f := range features {
			count[f]++
		}
	}
	if len(unknown) > 0 || len(nodes) == 0 {
		return nil, unknown
	}
	found = &v1.DiscoveredFeatures{}
	for _, f := range slices.Sorted(maps.Keys(count)) {
		if count[f] == len(nodes) {
			found.Enabled = append(found.Enabled, f)
		} else {
			found.NotEnabledCommon = append(found.NotEnabledCommon, f)
		}
	}
	return found, nil
}

// labelsTold returns which of the given features appear in a label of any node, so that they can be selected.
// node-feature-discovery omits features that nearly all CPUs have.
func labelsTold(features []v1.CPUFeature, nodes []*corev1.Node) *v1.DiscoveredFeatures {
	all := map[string]bool{}
	for _, node := range nodes {
		has, _ := featuresOf(node)
		maps.Copy(all, has)
	}
	var found v1.DiscoveredFeatures
	for _, f := range features {
		if all[string(f)] {
			found.Enabled = append(found.Enabled, string(f))
		}
	}
	if found.Enabled == nil {
		return nil
	}
	slices.Sort(found.Enabled)
	return &found
}
