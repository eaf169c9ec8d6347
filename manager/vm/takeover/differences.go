package takeover

import (
	"cmp"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
)

// findContradictions reports errors that the API server rejects with our CRD, and that VM types don't check.
func findContradictions(vm *v1.VirtualMachine, s *Subject) {
	m := &vm.Spec.VM
	if m.MaximumCPUs != nil && m.CPUTopology != nil {
		s.addFinding(Blocks, "spec.vm", "set either maximumCpus or cpuTopology", "")
	}
	names := map[string]bool{}
	for i, d := range m.Disks {
		if t := d.VolumeClaimTemplate; t != nil && t.Metadata.Name != "" {
			if names[t.Metadata.Name] {
				s.addFinding(Blocks, fmt.Sprintf("spec.vm.disks[%d].volumeClaimTemplate.metadata.name", i),
					"two disks have the same name", "they had one claim: remove one of them")
			}
			names[t.Metadata.Name] = true
		}
	}
	if runnerOfOriginal(vm) {
		s.addFinding(Blocks, "spec.image", "it is VM-Operator's runner, which doesn't understand our configuration",
			"remove spec.image")
	}
}

// runnerOfOriginal reports whether a VM names an image of VM-Operator's runner that the manager doesn't recognize.
// The manager replaces recognized images with its own image.
func runnerOfOriginal(vm *v1.VirtualMachine) bool {
	image := vm.Spec.Image
	return image != nil && !knownRunner(image) &&
		strings.Contains(image.Source+image.Path, "org.jdrupes.vmoperator.runner")
}

func knownRunner(image *v1.Image) bool {
	name := cmp.Or(image.Source, image.Repository+"/"+image.Path)
	return strings.HasPrefix(name, "ghcr.io/mnlipp/org.jdrupes.vmoperator.runner.")
}

// maximumCPUs returns the maximum number of a VM's CPUs.
func maximumCPUs(m *v1.VM) int32 {
	if m.MaximumCPUs != nil {
		return *m.MaximumCPUs
	}
	most := int32(1)
	if t := m.CPUTopology; t != nil {
		for _, n := range []int32{t.Sockets, t.DiesPerSocket, t.CoresPerDie, t.ThreadsPerCore} {
			most *= max(1, n)
		}
	}
	return most
}

// findDifferences reports what changes for a VM compared with VM-Operator, although its definition stays the same.
func (n *Namespace) findDifferences(vm *v1.VirtualMachine, s *Subject) {
	m := &vm.Spec.VM
	if most := maximumCPUs(m); m.CurrentCPUs == nil && most > 1 {
		s.addFinding(Changes, "spec.vm.currentCpus", fmt.Sprintf("the guest gets all %d CPUs; it had one", most),
			"1 keeps it so")
	}
	if m.CPUTopology != nil {
		s.addFinding(Changes, "spec.vm.cpuTopology",
			"the guest gets it; VM-Operator's runner left it out, or didn't start", "")
	}
	if len(m.Networks) == 0 {
		s.addFinding(Changes, "spec.vm.networks", "the guest has no network card; QEMU added a default card",
			"networks: [{user: {}}] adds a card")
	}
	if image := vm.Spec.Image; image != nil && !knownRunner(image) && !runnerOfOriginal(vm) {
		s.addFinding(Changes, "spec.image",
			"it must contain vmrunner and its VM types, instead of VM-Operator's runner", "or remove spec.image")
	}
	if t := vm.Spec.RunnerTemplate; t != nil && t.Update != nil && !*t.Update {
		s.addFinding(Changes, "spec.runnerTemplate.update",
			"the template that VM-Operator has saved in the VM's data, which you may have changed there, is not used",
			"spec.vmType.update: false keeps the VM type of the first start here")
	}
	n.reportInstanceID(vm, s)
	if sp := vm.Spec.LoadBalancerService; sp != nil && len(sp.Labels)+len(sp.Annotations) == 0 {
		s.addFinding(Changes, "spec.loadBalancerService", "an existing Service is removed; VM-Operator left it",
			"")
	}
	if m.Display != nil && m.Display.Spice != nil {
		spice := m.Display.Spice
		if spice.StreamingVideo != "" {
			s.addFinding(Changes, "spec.vm.display.spice.streamingVideo", "it takes effect; VM-Operator lost it", "")
		}
		if spice.Server != "" || spice.ProxyURL != "" {
			s.addFinding(Changes, "spec.vm.display.spice",
				"server and proxyUrl have no effect: viewers connect through the manager", "")
		}
	}
	for i, d := range m.Disks {
		if t := d.VolumeClaimTemplate; t != nil && len(t.Metadata.Labels) > 0 {
			s.addFinding(Changes, fmt.Sprintf("spec.vm.disks[%d].volumeClaimTemplate.metadata.labels", i),
				"the claim gets them; VM-Operator left them out", "")
		}
	}
}

// reportInstanceID reports that cloud-init will treat the guest as a new instance.
func (n *Namespace) reportInstanceID(vm *v1.VirtualMachine, s *Subject) {
	c := vm.Spec.CloudInit
	if c == nil || c.MetaData["instance-id"] != "" {
		return
	}
	var had struct {
		Runner struct {
			CloudInit struct {
				MetaData map[string]any `json:"metaData"`
			} `json:"cloudInit"`
		} `json:"/Runner"`
	}
	hint := "set it to the guest's /run/cloud-init/.instance-id to prevent that"
	if err := yaml.Unmarshal([]byte(n.configMaps[vm.Name].Data[objects.ConfigKey]), &had); err == nil {
		if id, is := had.Runner.CloudInit.MetaData["instance-id"]; is {
			hint = fmt.Sprintf("%v prevents that", id)
		}
	}
	s.addFinding(Changes, "spec.cloudInit.metaData.instance-id",
		"it changes once: cloud-init configures the guest as a new instance at the first start", hint)
}
