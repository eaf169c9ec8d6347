package local

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"vmop/internal/yamlfile"
	"vmop/manager/web/fleet"
	"vmop/manager/web/fleet/describe"
	"vmop/runner/inventory"
	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/vmstatus"
)

// drivePrefix begins the name of a drive. Its index in the configuration follows.
const drivePrefix = "drive "

// newView returns a VM as pages show it.
func newView(vm *inventory.VM) *fleet.VM {
	v := &fleet.VM{Name: vm.Name, File: vm.File, Wanted: vm.Running()}
	v.State, v.Message = stateOf(vm)
	if vm.Config != nil {
		fillConfigured(v, vm.Spec())
		fillDisks(v, vm)
		v.Type = vm.Config.VMType
	}
	if vm.Status != nil {
		fillReported(v, *vm.Status)
	}
	if vm.Fault != nil {
		v.Problems = append(v.Problems, fleet.Problem{Path: vm.File, Message: faultText(vm.Fault)})
		if v.State == fleet.Stopped {
			v.State, v.Message = fleet.Failed, vm.Fault.Error()
		}
	}
	if v.State.Up() {
		v.SSH = describe.SSH(v.Addresses, "vmrunner ssh "+vm.Name)
	} else {
		v.Screen, v.SPICE, v.Console = false, false, false
	}
	v.Can = possibleActions(vm, v.State)
	return v
}

// stateOf returns the state of a VM, and a message about it.
func stateOf(vm *inventory.VM) (fleet.State, string) {
	switch vm.State {
	case inventory.StateNoRunner:
		return fleet.Unmanaged, cmp.Or(vm.Problem, "QEMU is running, and its runner has been killed; start gives it another")
	case inventory.StateNoAnswer:
		return fleet.Unmanaged, cmp.Or(vm.Problem, "the runner does not answer")
	case inventory.StateActive:
		return fleet.Running, vm.Problem
	case inventory.StateFailed:
		return fleet.Failed, vm.Problem
	case vmstatus.StateInitializing, vmstatus.StateStarting:
		return fleet.Starting, vm.Problem
	case vmstatus.StateTerminating:
		return fleet.Stopping, stateMessage(vm)
	case vmstatus.StateStopped:
		return fleet.Stopped, vm.Problem
	}
	if vm.Status != nil {
		if ready := vm.Status.Condition(vmstatus.ConditionReady); ready.Status == vmstatus.False {
			return fleet.Paused, ready.Message
		}
	}
	return fleet.Running, stateMessage(vm)
}

// faultText returns the errors in a configuration, with the lines in question.
func faultText(err error) string {
	var all yamlfile.Faults
	if errors.As(err, &all) {
		return all.Excerpts()
	}
	return err.Error()
}

func stateMessage(vm *inventory.VM) string {
	if vm.Status == nil {
		return vm.Problem
	}
	return cmp.Or(vm.Problem, vm.Status.Message)
}

// fillConfigured sets the values from the configuration.
func fillConfigured(v *fleet.VM, s vmspec.Spec) {
	v.CPUs = fleet.Amount{Wanted: int64(s.CurrentCPUs), Maximum: int64(s.MaximumCPUs)}
	v.RAM = fleet.Amount{Wanted: int64(s.CurrentRAM), Maximum: int64(s.MaximumRAM)}
	for i, d := range s.Drives {
		if d.Type == vmspec.DriveIDECD {
			medium, _, _ := vmspec.Credentials(d.File)
			v.Drives = append(v.Drives, fleet.Drive{Name: drivePrefix + strconv.Itoa(i), Medium: medium})
		}
	}
	for i, n := range s.Network {
		v.Cards = append(v.Cards, fleet.Card{
			Key:     cmp.Or(n.MAC, fmt.Sprintf("network[%d]", i)),
			Network: string(n.Type), Bridge: n.Bridge, Model: n.Device, MAC: n.MAC, Down: n.Link == vmspec.LinkDown,
		})
	}
	v.Screen = s.Display != nil
	v.SPICE = v.Screen && s.Display.Spice != nil
	v.Console = s.SerialConsole != nil && s.SerialConsole.Enabled != nil && *s.SerialConsole.Enabled
}

// fillReported sets the values from the runner.
func fillReported(v *fleet.VM, s status.Status) {
	v.Type = cmp.Or(s.VMType, v.Type)
	v.Reason, v.Since, v.Advice = string(s.Reason), s.Since, s.Advice()
	if s.Started != nil {
		v.Started = *s.Started
	}
	v.CPUs.Now, v.RAM.Now = int64(s.CPUs), s.RAM
	v.User = s.LoggedInUser
	for _, c := range s.Consoles {
		v.Viewers = append(v.Viewers, fleet.Viewer{
			Kind: c.Kind, Who: c.Name(), Since: c.Since, Watches: c.Mode == status.ModeWatch,
		})
	}
	v.RestartAwaitingChanges = s.RestartAwaitingChanges
	for _, p := range s.Problems {
		v.Problems = append(v.Problems, fleet.Problem{Path: p.Path, Message: p.Message})
	}
	if s.Configuration.Error != "" {
		v.Problems = append(v.Problems, fleet.Problem{Path: v.File, Message: s.Configuration.Error})
	}
	for _, c := range s.Conditions {
		v.Conditions = append(v.Conditions, fleet.Condition{
			Type: string(c.Type), Status: string(c.Status), Reason: string(c.Reason), Message: c.Message,
			Since: c.LastTransitionTime,
		})
	}
	v.Addresses = guestAddresses(s.Addresses)
	fillGuest(v, s.Guest)
	detail := func(key, format string, values ...any) {
		v.Details = append(v.Details, fleet.Detail{Key: key, Value: fmt.Sprintf(format, values...)})
	}
	if s.QEMU.Version != "" {
		detail("qemu", "%s, process %d", s.QEMU.Version, s.QEMU.PID)
	}
	detail("runner", "%s, process %d", s.Runner.Version, s.Runner.PID)
	detail("uuid", "%s", s.UUID)
}

// fillGuest sets the values from the agent in the guest.
func fillGuest(v *fleet.VM, g *status.Guest) {
	if g == nil {
		return
	}
	if g.OS != nil {
		v.OS, v.OSID = cmp.Or(g.OS.PrettyName, g.OS.Name), g.OS.ID
		if g.OS.KernelRelease != "" {
			v.Details = append(v.Details, fleet.Detail{Key: "kernel", Value: g.OS.KernelRelease})
		}
	}
}

// guestAddresses returns the addresses of the guest.
func guestAddresses(known []status.Address) []fleet.Address {
	var all []fleet.Address
	for _, k := range known {
		a := fleet.Address{Address: k.Address, From: string(k.From), Claimed: k.Source == status.SourceAgent}
		for _, p := range k.Ports {
			a.Ports = append(a.Ports, fleet.Port{TCP: p.Protocol == "tcp", Port: p.Port, Guest: p.Guest})
		}
		all = append(all, a)
	}
	return all
}

// possibleActions returns which actions are possible now.
func possibleActions(vm *inventory.VM, s fleet.State) map[fleet.Action]bool {
	configured := vm.Place != nil
	managed := vm.Status != nil
	up := s == fleet.Running || s == fleet.Paused
	return map[fleet.Action]bool{
		fleet.Start: configured && vm.Fault == nil && (s == fleet.Stopped || s == fleet.Failed ||
			vm.State == inventory.StateNoRunner),
		fleet.Stop:         managed && (up || s == fleet.Starting) || vm.State == inventory.StateActive,
		fleet.Kill:         managed && (up || s.Changing()),
		fleet.Restart:      configured && managed && up && vm.Fault == nil,
		fleet.ForceRestart: configured && managed && (up || s.Changing()) && vm.Fault == nil,
		fleet.Reset:        managed && up,
		fleet.Pause:        managed && s == fleet.Running,
		fleet.Resume:       managed && s == fleet.Paused,
		fleet.Delete:       configured && !vm.Running(),
	}
}
