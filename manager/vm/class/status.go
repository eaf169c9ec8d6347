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

// Cluster contains what the status of a class depends on, in addition to the class. It is the same for the managers of
// all namespaces.
type Cluster struct {
	// Nodes are all nodes of the cluster.
	Nodes []*corev1.Node
	// NodesUnknown is the reason why the nodes are unknown; "" if they are known.
	NodesUnknown string
	// Default is the name of the default class for new VMs. Defaults are the names of all classes with the
	// annotation for it.
	Default  string
	Defaults []string
	// Fault is the reason why the VM type of the class rejects the class's defaults; "" if it accepts them, or if
	// this is unknown.
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
	reasonIsDefault       = "Default"
	reasonManyDefaults    = "SeveralDefaults"
)

// Limits for lists in a status.
const (
	mostNodes = 256
	mostVMs   = 16
)

// DefaultOf returns the default class of new VMs, and the names of all classes with the annotation for it. If there
// are several, the newest class is the default, as with storage classes.
func DefaultOf(all []*v1.VirtualMachineClass) (class *v1.VirtualMachineClass, names []string) {
	for _, c := range all {
		if c.Annotations[v1.AnnotationDefaultClass] != "true" {
			continue
		}
		names = append(names, c.Name)
		if c.DeletionTimestamp == nil && (class == nil || isNewerClass(c, class)) {
			class = c
		}
	}
	slices.Sort(names)
	return class, names
}

func isNewerClass(a, b *v1.VirtualMachineClass) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name < b.Name
	}
	return b.CreationTimestamp.Before(&a.CreationTimestamp)
}

// Status returns the part of a class's status that is the same for all managers.
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

// lookAt determines where VMs of a class can run, and returns the reason and message of the condition Ready.
func lookAt(c *v1.VirtualMachineClass, in Cluster, s *v1.VirtualMachineClassStatus) (reason, message string) {
	if in.NodesUnknown != "" {
		return ReasonNodesUnknown, in.NodesUnknown
	}
	cpu := &c.Spec.CPU
	selector, err := selectorOf("spec.nodeSelector", c.Spec.NodeSelector)
	if err != nil {
		return ReasonSelector, err.Error()
	}
	if cpu.Type == v1.CPUDiscovery && s.CPUFeatures == nil { // determined once, so that guests can rely on the features
		if reason, message = discoverClass(valueOf(cpu.Discovery), in.Nodes, s); reason != "" {
			return reason, message
		}
	}
	if cpu.Type == v1.CPUFeatures {
		s.CPUFeatures = labelsTold(cpu.Features, in.Nodes)
	}
	var fit []*corev1.Node
	for _, node := range in.Nodes {
		taken := selector.Matches(labels.Set(node.Labels)) && areTolerated(c.Spec.Tolerations, node)
		if taken && hasFeatures(s.CPUFeatures, node) {
			fit = append(fit, node)
		}
	}
	s.AvailableNodes, s.MaxAllocatableResources = availableNodes(fit)
	switch {
	case in.Fault != "":
		return ReasonDefaults, in.Fault
	case len(fit) == 0:
		return ReasonNoNodes, fmt.Sprintf("none of the %d nodes has the labels of spec.nodeSelector, "+
			"taints that spec.tolerations allow, and the features of spec.cpu", len(in.Nodes))
	}
	return ReasonReady, fmt.Sprintf("nodes that can run VMs of the class: %d", len(fit))
}

// discoverClass determines the common features of the selected nodes.
func discoverClass(d v1.Discovery, all []*corev1.Node, s *v1.VirtualMachineClassStatus) (reason, message string) {
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
	found, unknown := discoverFeatures(nodes)
	if found == nil {
		return ReasonNoFeatureLabels, fmt.Sprintf("nodes do not report their CPU features (%s): install "+
			"node-feature-discovery, which sets the labels %s*, or use the type Features",
			strings.Join(unknown[:min(len(unknown), mostVMs)], ", "), FeatureLabel)
	}
	s.CPUFeatures = found
	return "", ""
}

// defaultCondition returns the condition of a class with the annotation for the default class.
func defaultCondition(name string, in Cluster) metav1.Condition {
	c := metav1.Condition{Type: v1.ConditionDefaultClass, Status: metav1.ConditionTrue, Reason: reasonIsDefault}
	if len(in.Defaults) > 1 {
		c.Reason = reasonManyDefaults
		c.Message = fmt.Sprintf("several classes have the annotation %s: %s; new VMs get the newest, %s",
			v1.AnnotationDefaultClass, strings.Join(in.Defaults, ", "), in.Default)
	}
	if name != in.Default {
		c.Status = metav1.ConditionFalse
	}
	return c
}

// selectorOperators maps the operators of node requirements to the operators of package labels.
func selectorOperators() map[string]selection.Operator {
	return map[string]selection.Operator{
		"In": selection.In, "NotIn": selection.NotIn, "Exists": selection.Exists,
		"DoesNotExist": selection.DoesNotExist, "Gt": selection.GreaterThan, "Lt": selection.LessThan,
	}
}

// selectorOf returns a node selector. The error names the field.
func selectorOf(path string, of *v1.NodeLabels) (labels.Selector, error) {
	selector := labels.NewSelector()
	for _, r := range labelRequirements(of) {
		requirement, err := labels.NewRequirement(r.Key, selectorOperators()[string(r.Operator)], r.Values)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, r.Key, err)
		}
		selector = selector.Add(*requirement)
	}
	return selector, nil
}

// isPassing reports whether a taint describes a temporary state of a node rather than its purpose. Such taints come
// and go by themselves.
func isPassing(t corev1.Taint) bool {
	return strings.HasPrefix(t.Key, "node.kubernetes.io/") && t.Key != corev1.TaintNodeUnschedulable &&
		t.Key != corev1.TaintNodeOutOfService
}

// areTolerated reports whether tolerations allow all taints of a node.
func areTolerated(by []v1.Toleration, node *corev1.Node) bool {
	return !slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Effect != corev1.TaintEffectPreferNoSchedule && !isPassing(taint) &&
			!slices.ContainsFunc(by, func(t v1.Toleration) bool { return toleratesTaint(t, taint) })
	})
}

func toleratesTaint(t v1.Toleration, taint corev1.Taint) bool {
	return (t.Effect == "" || t.Effect == string(taint.Effect)) && (t.Key == "" || t.Key == taint.Key) &&
		(t.Operator == "Exists" || string(t.Value) == taint.Value)
}

// hasFeatures reports whether a node has all features; nil means that no features are required.
func hasFeatures(features *v1.DiscoveredFeatures, node *corev1.Node) bool {
	its, _ := featuresOf(node)
	return !slices.ContainsFunc(valueOf(features).Enabled, func(f string) bool { return !its[f] })
}

// availableNodes returns the names of nodes, and the largest amounts of resources that pods can use on a node.
func availableNodes(nodes []*corev1.Node) (names []string, most corev1.ResourceList) {
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

// Use returns the entry for a namespace with the names of the VMs that use a class.
func Use(namespace string, vms []string) v1.ClassUse {
	vms = slices.Sorted(slices.Values(vms))
	return v1.ClassUse{Namespace: namespace, Count: int32(len(vms)), VirtualMachines: vms[:min(len(vms), mostVMs)]}
}
