package class

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	v1 "vmop/api/v1"
)

// A Cluster is what the status of a class depends on besides the class. It is the same for
// the managers of all namespaces.
type Cluster struct {
	// Nodes are all there are.
	Nodes []*corev1.Node
	// NodesUnknown says why they are not known; "" if they are.
	NodesUnknown string
	// Default is the name of the class that new VMs get, Defaults those of all that want
	// to be it.
	Default  string
	Defaults []string
	// Fault is why the VM type of the class refuses its defaults; "" if it doesn't, or if
	// that is not known.
	Fault string
}

// Reasons of the conditions of a class.
const (
	ReasonReady           = "NodesAvailable"
	ReasonNodesUnknown    = "NodesUnknown"
	ReasonNoNodes         = "NoNodes"
	ReasonSelector        = "SelectorNotValid"
	ReasonNoFeatureLabels = "NoFeatureLabels"
	ReasonDefaults        = "DefaultsNotAccepted"
	ReasonIsDefault       = "Default"
	ReasonManyDefaults    = "SeveralDefaults"
)

// most bounds lists in a status.
const (
	mostNodes = 256
	mostVMs   = 16
)

// DefaultOf returns the class that new VMs get which name none, and the names of all that are
// to be it: of several the newest, as of storage classes.
func DefaultOf(all []*v1.VirtualMachineClass) (class *v1.VirtualMachineClass, names []string) {
	for _, c := range all {
		if c.Annotations[v1.AnnotationDefaultClass] != "true" {
			continue
		}
		names = append(names, c.Name)
		if c.DeletionTimestamp == nil && (class == nil || newer(c, class)) {
			class = c
		}
	}
	slices.Sort(names)
	return class, names
}

func newer(a, b *v1.VirtualMachineClass) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name < b.Name
	}
	return b.CreationTimestamp.Before(&a.CreationTimestamp)
}

// Status returns the part of a class's status that is the same whichever manager writes it.
func Status(c *v1.VirtualMachineClass, in Cluster, now time.Time) v1.VirtualMachineClassStatus {
	s := v1.VirtualMachineClassStatus{
		ObservedGeneration: c.Generation, Phase: v1.ClassPending, CPUFeatures: c.Status.CPUFeatures,
	}
	ready := metav1.Condition{Type: v1.ConditionReady, Status: metav1.ConditionFalse}
	ready.Reason, ready.Message = lookAt(c, in, &s)
	switch ready.Reason {
	case ReasonReady:
		ready.Status, s.Phase = metav1.ConditionTrue, v1.ClassReady
	case ReasonNodesUnknown:
		ready.Status = metav1.ConditionUnknown
	}
	if c.DeletionTimestamp != nil {
		s.Phase = v1.ClassTerminating
	}
	all := []metav1.Condition{ready}
	if c.Annotations[v1.AnnotationDefaultClass] == "true" {
		all = append(all, defaultCondition(c.Name, in))
	}
	for _, condition := range all {
		have := meta.FindStatusCondition(c.Status.Conditions, condition.Type)
		condition.ObservedGeneration = c.Generation
		condition.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
		if have != nil && have.Status == condition.Status {
			condition.LastTransitionTime = have.LastTransitionTime
		}
		s.Conditions = append(s.Conditions, condition)
	}
	return s
}

// lookAt fills in where VMs of a class can run, and returns how that is.
func lookAt(c *v1.VirtualMachineClass, in Cluster, s *v1.VirtualMachineClassStatus) (reason, message string) {
	if in.NodesUnknown != "" {
		return ReasonNodesUnknown, in.NodesUnknown
	}
	cpu := &c.Spec.CPU
	selector, err := selectorOf("spec.nodeSelector", c.Spec.NodeSelector)
	if err != nil {
		return ReasonSelector, err.Error()
	}
	if cpu.Type == v1.CPUDiscovery && s.CPUFeatures == nil { // found once, so that guests can count on them
		if reason, message = discovered(value(cpu.Discovery), in.Nodes, s); reason != "" {
			return reason, message
		}
	}
	if cpu.Type == v1.CPUFeatures {
		s.CPUFeatures = told(cpu.Features, in.Nodes)
	}
	var fit []*corev1.Node
	for _, node := range in.Nodes {
		taken := selector.Matches(labels.Set(node.Labels)) && tolerated(c.Spec.Tolerations, node)
		if taken && has(s.CPUFeatures, node) {
			fit = append(fit, node)
		}
	}
	s.AvailableNodes, s.MaxAllocatableResources = available(fit)
	switch {
	case in.Fault != "":
		return ReasonDefaults, in.Fault
	case len(fit) == 0:
		return ReasonNoNodes, fmt.Sprintf("none of the %d nodes has the labels of spec.nodeSelector, "+
			"taints that spec.tolerations allow, and the features of spec.cpu", len(in.Nodes))
	}
	return ReasonReady, fmt.Sprintf("nodes that can run VMs of the class: %d", len(fit))
}

// discovered finds the features that nodes have in common.
func discovered(d v1.Discovery, all []*corev1.Node, s *v1.VirtualMachineClassStatus) (reason, message string) {
	const path = "spec.cpu.discovery.nodeSelector"
	selector, err := selectorOf(path, d.NodeSelector)
	if err != nil {
		return ReasonSelector, err.Error()
	}
	var nodes []*corev1.Node
	for _, node := range all {
		if selector.Matches(labels.Set(node.Labels)) {
			nodes = append(nodes, node)
		}
	}
	if len(nodes) == 0 {
		return ReasonNoNodes, path + " selects no node"
	}
	found, unknown := discover(nodes)
	if found == nil {
		return ReasonNoFeatureLabels, fmt.Sprintf("nodes do not say which features their CPUs have (%s): install "+
			"node-feature-discovery, which sets the labels %s*, or use the type Features",
			strings.Join(unknown[:min(len(unknown), mostVMs)], ", "), FeatureLabel)
	}
	s.CPUFeatures = found
	return "", ""
}

// defaultCondition is for a class that is to be that of new VMs.
func defaultCondition(name string, in Cluster) metav1.Condition {
	c := metav1.Condition{Type: v1.ConditionDefaultClass, Status: metav1.ConditionTrue, Reason: ReasonIsDefault}
	if len(in.Defaults) > 1 {
		c.Reason = ReasonManyDefaults
		c.Message = fmt.Sprintf("several classes have the annotation %s: %s; new VMs get the newest, %s",
			v1.AnnotationDefaultClass, strings.Join(in.Defaults, ", "), in.Default)
	}
	if name != in.Default {
		c.Status = metav1.ConditionFalse
	}
	return c
}

// operators are those of a node's requirements as package labels calls them.
func operators() map[string]selection.Operator {
	return map[string]selection.Operator{
		"In": selection.In, "NotIn": selection.NotIn, "Exists": selection.Exists,
		"DoesNotExist": selection.DoesNotExist, "Gt": selection.GreaterThan, "Lt": selection.LessThan,
	}
}

// selectorOf returns a selector of nodes. The error names the field.
func selectorOf(path string, of *v1.NodeLabels) (labels.Selector, error) {
	selector := labels.NewSelector()
	for _, r := range requirements(of) {
		requirement, err := labels.NewRequirement(r.Key, operators()[string(r.Operator)], r.Values)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, r.Key, err)
		}
		selector = selector.Add(*requirement)
	}
	return selector, nil
}

// passing reports whether a taint says how a node is at the moment, rather than what it is
// for: it comes and goes by itself.
func passing(t corev1.Taint) bool {
	return strings.HasPrefix(t.Key, "node.kubernetes.io/") && t.Key != corev1.TaintNodeUnschedulable &&
		t.Key != corev1.TaintNodeOutOfService
}

// tolerated reports whether tolerations allow all taints of a node.
func tolerated(by []v1.Toleration, node *corev1.Node) bool {
	return !slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Effect != corev1.TaintEffectPreferNoSchedule && !passing(taint) &&
			!slices.ContainsFunc(by, func(t v1.Toleration) bool { return tolerates(t, taint) })
	})
}

func tolerates(t v1.Toleration, taint corev1.Taint) bool {
	return (t.Effect == "" || t.Effect == string(taint.Effect)) && (t.Key == "" || t.Key == taint.Key) &&
		(t.Operator == "Exists" || string(t.Value) == taint.Value)
}

// has reports whether a node has features; nil are none.
func has(features *v1.DiscoveredFeatures, node *corev1.Node) bool {
	its, _ := featuresOf(node)
	return !slices.ContainsFunc(value(features).Enabled, func(f string) bool { return !its[f] })
}

// available returns the names of nodes, and the largest amounts that pods can have there.
func available(nodes []*corev1.Node) (names []string, most corev1.ResourceList) {
	for _, node := range nodes {
		names = append(names, node.Name)
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			can, given := node.Status.Allocatable[name]
			if had, is := most[name]; given && (!is || had.Cmp(can) < 0) {
				if most == nil {
					most = corev1.ResourceList{}
				}
				most[name] = can.DeepCopy()
			}
		}
	}
	slices.Sort(names)
	return names[:min(len(names), mostNodes)], most
}

// Use returns who uses a class in a namespace: VMs by their names.
func Use(namespace string, vms []string) v1.ClassUse {
	vms = slices.Sorted(slices.Values(vms))
	return v1.ClassUse{Namespace: namespace, Count: int32(len(vms)), VirtualMachines: vms[:min(len(vms), mostVMs)]}
}
