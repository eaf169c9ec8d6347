package v1

import "cmp"

// RunPolicy defines when a VM runs, and what may start and stop it.
//
// +kubebuilder:validation:Enum=AlwaysOn;AlwaysOnUnlessStoppedManually;Manual;AlwaysOff
type RunPolicy string

// The run policies.
const (
	AlwaysOn                      RunPolicy = "AlwaysOn"
	AlwaysOnUnlessStoppedManually RunPolicy = "AlwaysOnUnlessStoppedManually"
	Manual                        RunPolicy = "Manual"
	AlwaysOff                     RunPolicy = "AlwaysOff"
)

// DesiredState returns whether the VM should run, by its run policy and vm.state together.
//
// See docs/decisions/0082-run-policies.md.
func (s *VirtualMachineSpec) DesiredState() State {
	switch s.RunPolicy {
	case AlwaysOn:
		return Running
	case AlwaysOff:
		return Stopped
	case AlwaysOnUnlessStoppedManually:
		return cmp.Or(s.VM.State, Running)
	}
	return cmp.Or(s.VM.State, Stopped)
}

// StateIsFree reports whether vm.state may be set, rather than being determined by the run policy.
func (s *VirtualMachineSpec) StateIsFree() bool {
	return s.RunPolicy != AlwaysOn && s.RunPolicy != AlwaysOff
}

// GuestStops reports whether the VM stays off after its guest has shut down.
func (s *VirtualMachineSpec) GuestStops() bool {
	switch s.RunPolicy {
	case AlwaysOn:
		return false
	case AlwaysOnUnlessStoppedManually, Manual:
		return true
	}
	return s.GuestShutdownStops
}

// CrashStops reports whether the VM stays off after a crash of QEMU or the guest.
func (s *VirtualMachineSpec) CrashStops() bool { return s.RunPolicy == Manual }
