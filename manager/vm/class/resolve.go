package class

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "vmop/api/v1"
)

// stockType is the VM type if VM and class name no type.
const stockType = "standard"

// spicePort is the port of the default display.
const spicePort = 5900

// Resolve completes a VM with the values that were taken from its class, and then with the documented defaults of
// the resource. The remaining fields are left to the runner, which uses the same defaults. The VM itself is not
// changed; both VMs share unchanged parts.
func Resolve(vm *v1.VirtualMachine, t Taken) (*v1.VirtualMachine, error) {
	resolved := *vm
	s := &resolved.Spec
	s.VMType = vmType(s.VMType, t.VMType)
	if err := fillMachine(&s.VM, t); err != nil {
		return nil, err
	}
	if t.CoreFraction != "" && s.Resources == nil {
		cpu := valueOf(s.CPU)
		if cpu.CoreFraction == "" {
			cpu.CoreFraction = t.CoreFraction
		}
		s.CPU = &cpu
	}
	if terms := labelRequirements(t.NodeSelector); len(terms) > 0 {
		affinity := valueOf(s.Affinity)
		affinity.NodeAffinity = requireAlso(affinity.NodeAffinity, terms)
		s.Affinity = &affinity
	}
	s.Tolerations = mergeTolerations(s.Tolerations, t.Tolerations)
	return &resolved, nil
}

// valueOf returns *of, or the zero value if of is nil.
func valueOf[T any](of *T) (v T) {
	if of != nil {
		v = *of
	}
	return v
}

// vmType completes the type of a VM. The ConfigMap or image of a class belongs to the class's type, and isn't used
// for a VM's own type.
func vmType(own v1.VMType, of *v1.VMType) v1.VMType {
	class := valueOf(of)
	if own.Source == "" {
		own.Source = class.Source
		if own.ConfigMap == "" {
			own.ConfigMap, own.Image = class.ConfigMap, class.Image
			own.ImagePullSecret, own.CABundle = class.ImagePullSecret, class.CABundle
		}
	}
	fillText(&own.Source, stockType)
	fillPointer(&own.Update, class.Update)
	fillPointer(&own.Update, new(true))
	return own
}

func fillMachine(m *v1.VM, t Taken) error {
	d := valueOf(t.Defaults)
	fillText(&m.CPUModel, t.CPUModel)
	fillText(&m.Firmware, d.Firmware)
	fillText(&m.Accelerator, d.Accelerator)
	fillText(&m.RTCBase, d.RTCBase)
	fillText(&m.RTCClock, d.RTCClock)
	fillPointer(&m.UseTPM, d.UseTPM)
	fillPointer(&m.BootMenu, d.BootMenu)
	fillPointer(&m.PowerdownTimeout, d.PowerdownTimeout)
	fillPointer(&m.Display, d.Display)
	if m.Display == nil {
		m.Display = &v1.Display{Outputs: 1, Spice: &v1.Spice{Port: spicePort}}
	}
	if m.Networks == nil {
		m.Networks = d.Networks
	}
	var err error
	m.Options, err = mergeOptions(m.Options, d.Options)
	return err
}

func fillText(to *string, with string) {
	if *to == "" {
		*to = with
	}
}

func fillPointer[T any](to **T, with *T) {
	if *to == nil {
		*to = with
	}
}

// mergeOptions adds the class's options that the VM doesn't set.
func mergeOptions(own, class *runtime.RawExtension) (*runtime.RawExtension, error) {
	switch {
	case class == nil || class.Raw == nil:
		return own, nil
	case own == nil || own.Raw == nil:
		return class, nil
	}
	var all, of map[string]json.RawMessage
	if err := json.Unmarshal(class.Raw, &all); err != nil {
		return nil, fmt.Errorf("read spec.defaults.options of the class: %w", err)
	}
	if err := json.Unmarshal(own.Raw, &of); err != nil {
		return nil, fmt.Errorf("read spec.vm.options: %w", err)
	}
	if all == nil { // null
		return own, nil
	}
	maps.Copy(all, of)
	text, err := json.Marshal(all)
	if err != nil {
		return nil, fmt.Errorf("write spec.vm.options: %w", err)
	}
	return &runtime.RawExtension{Raw: text}, nil
}

// labelRequirements returns a selector's requirements for node labels, sorted.
func labelRequirements(of *v1.NodeLabels) (all []corev1.NodeSelectorRequirement) {
	if of == nil {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(of.MatchLabels)) {
		all = append(all, corev1.NodeSelectorRequirement{
			Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{string(of.MatchLabels[key])},
		})
	}
	for _, e := range of.MatchExpressions {
		r := corev1.NodeSelectorRequirement{Key: e.Key, Operator: corev1.NodeSelectorOperator(e.Operator)}
		for _, v := range e.Values {
			r.Values = append(r.Values, string(v))
		}
		all = append(all, r)
	}
	return all
}

// requireAlso returns the affinity with more requirements, which are added to each of its alternatives.
func requireAlso(of *corev1.NodeAffinity, more []corev1.NodeSelectorRequirement) *corev1.NodeAffinity {
	affinity := valueOf(of)
	required := valueOf(affinity.RequiredDuringSchedulingIgnoredDuringExecution)
	terms := make([]corev1.NodeSelectorTerm, 0, len(required.NodeSelectorTerms))
	for _, term := range required.NodeSelectorTerms {
		if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
			continue // an empty term matches no node
		}
		term.MatchExpressions = slices.Concat(term.MatchExpressions, more)
		terms = append(terms, term)
	}
	if affinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		terms = append(terms, corev1.NodeSelectorTerm{MatchExpressions: more})
	}
	if len(terms) == 0 { // no node matches, and this must not change
		terms = required.NodeSelectorTerms
	}
	affinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: terms}
	return &affinity
}

// mergeTolerations adds the class's tolerations to the VM's. A VM's own toleration for a taint takes precedence.
func mergeTolerations(own []corev1.Toleration, class []v1.Toleration) []corev1.Toleration {
	all := slices.Clip(own)
	for _, t := range class {
		said := slices.ContainsFunc(own, func(o corev1.Toleration) bool {
			return o.Key == t.Key && string(o.Effect) == t.Effect
		})
		if said {
			continue
		}
		all = append(all, corev1.Toleration{
			Key: t.Key, Operator: corev1.TolerationOperator(t.Operator), Value: string(t.Value),
			Effect: corev1.TaintEffect(t.Effect), TolerationSeconds: t.TolerationSeconds,
		})
	}
	return all
}
