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

// stockType is the VM type of VMs that name none, in a class that names none.
const stockType = "standard"

// spicePort is that of the display of VMs that say nothing about it.
const spicePort = 5900

// Resolve returns a VM with what it leaves out: as what was taken of its class says, else with
// the defaults that the resource documents. What is left out still is left to the runner,
// whose defaults are the same. The VM is not changed; both share what they have in common.
func Resolve(vm *v1.VirtualMachine, t Taken) (*v1.VirtualMachine, error) {
	resolved := *vm
	s := &resolved.Spec
	s.VMType = vmType(s.VMType, t.VMType)
	if err := machine(&s.VM, t); err != nil {
		return nil, err
	}
	if t.CoreFraction != "" && s.Resources == nil {
		cpu := value(s.CPU)
		if cpu.CoreFraction == "" {
			cpu.CoreFraction = t.CoreFraction
		}
		s.CPU = &cpu
	}
	if terms := requirements(t.NodeSelector); len(terms) > 0 {
		affinity := value(s.Affinity)
		affinity.NodeAffinity = also(affinity.NodeAffinity, terms)
		s.Affinity = &affinity
	}
	s.Tolerations = tolerations(s.Tolerations, t.Tolerations)
	return &resolved, nil
}

// value returns what a pointer points to; the zero value for nil.
func value[T any](of *T) (v T) {
	if of != nil {
		v = *of
	}
	return v
}

// vmType adds what a VM leaves out of its type. The ConfigMap or image of a class is that of its type,
// and none of a VM's own.
func vmType(own v1.VMType, of *v1.VMType) v1.VMType {
	class := value(of)
	if own.Source == "" {
		own.Source = class.Source
		if own.ConfigMap == "" {
			own.ConfigMap, own.Image = class.ConfigMap, class.Image
			own.ImagePullSecret, own.CABundle = class.ImagePullSecret, class.CABundle
		}
	}
	fill(&own.Source, stockType)
	fillPointer(&own.Update, class.Update)
	fillPointer(&own.Update, new(true))
	return own
}

func machine(m *v1.VM, t Taken) error {
	d := value(t.Defaults)
	fill(&m.CPUModel, t.CPUModel)
	fill(&m.Firmware, d.Firmware)
	fill(&m.Accelerator, d.Accelerator)
	fill(&m.RTCBase, d.RTCBase)
	fill(&m.RTCClock, d.RTCClock)
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
	m.Options, err = options(m.Options, d.Options)
	return err
}

func fill(to *string, with string) {
	if *to == "" {
		*to = with
	}
}

func fillPointer[T any](to **T, with *T) {
	if *to == nil {
		*to = with
	}
}

// options adds to a VM's options those of its class that it doesn't have.
func options(own, class *runtime.RawExtension) (*runtime.RawExtension, error) {
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

// requirements returns what a selector asks of a node's labels, sorted.
func requirements(of *v1.NodeLabels) (all []corev1.NodeSelectorRequirement) {
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

// also returns an affinity that asks for more: each of its alternatives does.
func also(of *corev1.NodeAffinity, more []corev1.NodeSelectorRequirement) *corev1.NodeAffinity {
	affinity := value(of)
	required := value(affinity.RequiredDuringSchedulingIgnoredDuringExecution)
	terms := make([]corev1.NodeSelectorTerm, 0, len(required.NodeSelectorTerms))
	for _, term := range required.NodeSelectorTerms {
		if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
			continue // it matches no node
		}
		term.MatchExpressions = slices.Concat(term.MatchExpressions, more)
		terms = append(terms, term)
	}
	if affinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		terms = append(terms, corev1.NodeSelectorTerm{MatchExpressions: more})
	}
	if len(terms) == 0 { // nothing matches, and stays so
		terms = required.NodeSelectorTerms
	}
	affinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: terms}
	return &affinity
}

// tolerations adds to a VM's those of its class for which it has none of its own: of one taint
// it may say something else.
func tolerations(own []corev1.Toleration, class []v1.Toleration) []corev1.Toleration {
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
