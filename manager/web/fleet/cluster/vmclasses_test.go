package cluster

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/web/fleet"
	"vmop/test/tier"
	"vmop/test/wait"
)

// A form offers the ready classes with their properties.
func TestClassesOfVMs(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	p := newPlace(t)
	always := context.WithoutCancel(t.Context())
	name := func(kind string) string { return p.Name + "-" + kind }
	head := func(kind string) string {
		return "{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachineClass, metadata: {name: " + name(kind) +
			"}, spec: "
	}
	p.Apply(head("plain")+"{cpu: {type: Host}}}", head("late")+"{cpu: {type: Host}}}", head("desk")+`{
  cpu: {type: Host}, sizingPolicies: [{cores: {min: 1, max: 2}, coreFractions: [50%, 5%]}], vmType: {source: standard},
  defaults: {networks: [{masquerade: {}}, {tap: {}}], options: {b: 1, a: {c: 2}}}}}`)
	offered := func() (classes []fleet.VMClass) {
		offer, err := p.Offer(t.Context())
		require.NoError(t, err)
		return offer.VMClasses
	}
	require.Nil(t, offered(), "the manager may not list them")
	for _, kind := range []string{"plain", "desk"} {
		var c v1.VirtualMachineClass
		c.Name = name(kind)
		t.Cleanup(func() { require.NoError(t, p.admin.Delete(always, &c)) })
		p.Kubectl("patch", "vmclass", c.Name, "--subresource=status", "--type=merge", "-p",
			`{"status": {"phase": "Ready"}}`)
	}
	late := &v1.VirtualMachineClass{ObjectMeta: metav1.ObjectMeta{Name: name("late")}}
	t.Cleanup(func() { require.NoError(t, p.admin.Delete(always, late)) })
	require.NoError(t, p.ApplyDeploy(t.Context(), p.Name, t.TempDir(), ""))
	var ours []fleet.VMClass
	wait.Until(t, func() bool {
		ours = slices.DeleteFunc(offered(), func(c fleet.VMClass) bool {
			return c.Name != name("plain") && c.Name != name("desk") && c.Name != name("late")
		})
		return len(ours) > 0
	})
	require.Equal(t, []fleet.VMClass{
		{
			Name: name("desk"), Sizes: []string{"1 to 2 CPUs"}, Type: "standard", Network: "masquerade",
			Options: []string{"a", "b"}, Fractions: []fleet.Fractions{{
				Least: 1, Most: 2, Allowed: []string{"5%", "50%"}, Preset: "50%",
			}},
		},
		{Name: name("plain")},
	}, ours)
	text, err := p.Draft(t.Context(), &fleet.Draft{Name: "web", Class: name("desk"), CPUs: 1, Fraction: "5%"})
	require.NoError(t, err)
	require.NoError(t, p.Create(t.Context(), "alice", "web", text, ""))
	vm := p.resource("web")
	require.Equal(t, name("desk"), vm.Spec.VirtualMachineClassName)
	require.EqualValues(t, "5%", vm.Spec.CPU.CoreFraction)
	require.Empty(t, vm.Spec.VMType.Source, "the class says it")
	require.Empty(t, vm.Spec.VM.Networks)
}
