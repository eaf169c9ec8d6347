package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/vm/decide"
)

// beside returns an affinity for VMs with a label.
func beside(label string) *v1.VirtualMachineAndPodAffinity {
	return &v1.VirtualMachineAndPodAffinity{Required: []corev1.PodAffinityTerm{{
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"server": label}},
		TopologyKey:   corev1.LabelHostname,
	}}}
}

// VMs run on the same node as other VMs or on another node, as their definitions require (docs/tasks/placement.md).
func placement(t *testing.T, l *lab) {
	labelled := func(name, label string, change ...func(*v1.VirtualMachineSpec)) *clusterVM {
		d := tiny(name, change...)
		d.Labels = map[string]string{"server": label}
		return l.create(t, d)
	}
	with := func(a v1.Affinity) func(*v1.VirtualMachineSpec) {
		return func(s *v1.VirtualMachineSpec) { s.Affinity = &a }
	}
	node := func(v *clusterVM) string {
		is := v.until("to have a node", func(now *v1.VirtualMachine) bool { return now.Status.NodeName != "" })
		return is.Status.NodeName
	}
	unplaced := func(v *clusterVM, why string) {
		is := v.until("to have no node", func(now *v1.VirtualMachine) bool {
			return now.Status.Phase == v1.PhasePending && now.Status.Reason == decide.ReasonUnschedulable
		})
		require.Contains(t, is.Status.Message, why)
	}
	near := labelled("near", "near", with(v1.Affinity{VirtualMachineAndPodAffinity: beside("database")}))
	unplaced(near, "spec.affinity.virtualMachineAndPodAffinity or podAffinity requires what no such node runs")
	database := labelled("database", "database")
	require.Equal(t, node(database), node(near), "it has waited for the other")
	far := labelled("far", "far", with(v1.Affinity{VirtualMachineAndPodAntiAffinity: beside("database")}))
	require.NotEqual(t, node(database), node(far))

	nowhere := labelled("nowhere", "nowhere", with(v1.Affinity{
		VirtualMachineAndPodAffinity:     beside("far"),
		VirtualMachineAndPodAntiAffinity: beside("far"),
	}))
	unplaced(nowhere, "spec.affinity.virtualMachineAndPodAntiAffinity or podAntiAffinity refuses what such nodes run")
	nowhere.change(func(s *v1.VirtualMachineSpec) { s.Affinity.VirtualMachineAndPodAntiAffinity = nil })
	require.Equal(t, node(far), node(nowhere))

	// A running VM keeps a later VM away even if the later VM's definition has no such rule.
	second := labelled("second", "database", func(s *v1.VirtualMachineSpec) {
		s.NodeSelector = map[string]string{corev1.LabelHostname: node(far)}
	})
	unplaced(second, "a VM or pod that runs there has an anti-affinity to this VM's labels")

	l.placesOfTheGuide(t, unplaced, database)
}

// placesOfTheGuide tests the examples of Deckhouse's guide that use node labels and a preference.
func (l *lab) placesOfTheGuide(t *testing.T, unplaced func(*clusterVM, string), database *clusterVM) {
	node := database.now().Status.NodeName
	other := map[string]string{"node1": "node2", "node2": "node1"}[node]
	require.NotEmpty(t, other)
	onSSD := l.create(t, tiny("on-ssd", func(s *v1.VirtualMachineSpec) {
		s.NodeSelector = map[string]string{"disktype": "ssd"}
	}))
	byExpression := l.create(t, tiny("by-expression", func(s *v1.VirtualMachineSpec) {
		s.Affinity = &v1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: "disktype", Operator: corev1.NodeSelectorOpIn, Values: []string{"ssd"},
				}}}},
			},
		}}
	}))
	prefers := l.create(t, tiny("prefers", func(s *v1.VirtualMachineSpec) {
		term := beside("database").Required[0]
		s.Affinity = &v1.Affinity{VirtualMachineAndPodAffinity: &v1.VirtualMachineAndPodAffinity{
			Preferred: []v1.VirtualMachineAndPodPreference{
				{Weight: 100, VirtualMachineAndPodAffinityTerm: term},
			},
		}}
	}))
	unplaced(onSSD, "spec.nodeSelector requires the labels disktype=ssd")
	unplaced(byExpression, "spec.affinity.nodeAffinity")
	l.kubectl(t, "label", "node", other, "disktype=ssd")
	for v, want := range map[*clusterVM]string{onSSD: other, byExpression: other, prefers: node} {
		is := v.until("to have a node", func(now *v1.VirtualMachine) bool { return now.Status.NodeName != "" })
		require.Equal(t, want, is.Status.NodeName, is.Name)
	}
}
