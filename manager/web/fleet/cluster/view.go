package cluster

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/access"
	"vmop/manager/operation"
	"vmop/manager/pool"
	"vmop/manager/vm/class"
	"vmop/manager/vm/decide"
	"vmop/manager/web/fleet"
	"vmop/manager/web/fleet/describe"
	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/vmstatus"
)

// drivePrefix begins the name of a drive. Its index in spec.vm.disks follows.
const drivePrefix = "drive "

// newView returns a VM as pages show it. pod is nil if the VM has none; all are the operations that name the VM.
func newView(vm *v1.VirtualMachine, pod *corev1.Pod, all []*v1.VirtualMachineOperation) *fleet.VM {
	s := &vm.Status
	v := &fleet.VM{
		Name: vm.Name, UID: string(vm.UID), Wanted: vm.Spec.DesiredState() == v1.Running,
		RunPolicy: string(vm.Spec.RunPolicy), Type: cmp.Or(s.VMType, vm.Spec.VMType.Source),
		Node: s.NodeName, User: s.LoggedInUser, Labels: vm.Labels, Reason: s.Reason, Message: s.Message,
	}
	v.State = stateOf(vm)
	v.Since = stateSince(vm, pod, v.State)
	up := v.State.Up()
	if running := conditionOf(vm, v1.ConditionRunning); up && running != nil && running.Status == metav1.ConditionTrue {
		v.Started = running.LastTransitionTime.Time
	}
	if ready := conditionOf(vm, v1.ConditionReady); v.State == fleet.Paused {
		v.Reason, v.Message = ready.Reason, ready.Message
	}
	v.Advice = decide.AdviceFor(v.Reason)
	fillSize(v, vm)
	v.Addresses = guestAddresses(vm)
	if up {
		v.SSH = sshCommand(vm, v.Addresses)
	}
	v.Cards = networkCards(vm.Spec.VM.Networks)
	v.OS, v.OSID = guestSystem(vm)
	v.Viewers = currentViewers(vm)
	for i, d := range vm.Spec.VM.Disks {
		if d.CDROM != nil {
			medium, _, _ := vmspec.Credentials(d.CDROM.Image)
			v.Drives = append(v.Drives, fleet.Drive{Name: drivePrefix + strconv.Itoa(i), Medium: medium})
		}
	}
	reachable := pod != nil && s.Runner != nil && s.Runner.PodUID == pod.UID && s.Runner.Control != nil
	v.Screen, v.Console = up && reachable && vm.Spec.VM.Display != nil, up && reachable
	v.SPICE = v.Screen && vm.Spec.VM.Display.Spice != nil
	for _, c := range s.RestartAwaitingChanges {
		change := fleet.Change{Path: c.Path, Operation: c.Operation}
		change.CurrentValue, change.DesiredValue = c.Values()
		v.RestartAwaitingChanges = append(v.RestartAwaitingChanges, change)
	}
	for _, c := range s.Conditions {
		v.Conditions = append(v.Conditions, fleet.Condition{
			Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message,
			Since: timeOf(c.LastTransitionTime),
		})
	}
	v.Problems = problemsOf(vm, v)
	v.Details = detailsOf(vm, pod)
	if m := s.Migration; up && m.Active() {
		v.Migration = &fleet.Migration{
			From: m.Source.NodeName, To: m.Target.NodeName, Progress: int(m.Progress), Message: m.Message,
		}
	}
	v.Operations = shownOperations(all)
	fillPossible(v, vm, pod, all, reachable)
	return v
}

// fillPossible sets which actions are possible now. For operations it asks package operation.
func fillPossible(v *fleet.VM, vm *v1.VirtualMachine, pod *corev1.Pod, all []*v1.VirtualMachineOperation,
	reachable bool,
) {
	s := v.State
	v.Refused = map[fleet.Action]string{}
	v.Can = map[fleet.Action]bool{
		fleet.Pause:  reachable && s == fleet.Running && v.Migration == nil,
		fleet.Resume: reachable && s == fleet.Paused && v.Reason == string(vmstatus.ReasonPaused),
		fleet.Delete: s == fleet.Stopped || s == fleet.Failed || s == fleet.Pending,
	}
	for _, a := range fleet.Actions() {
		if spec, is := operationOf(a, vm.Name); is {
			r := operation.Possible(spec, vm, pod, all)
			if v.Can[a] = r == nil; r != nil {
				v.Refused[a] = r.Message
			}
		}
	}
}

// rightsOf returns the input for access decisions about a VM. The user of its screen is the viewer with the keyboard,
// not a viewer who only watches.
func rightsOf(vm *v1.VirtualMachine) access.VM {
	rights := access.VM{Name: vm.Name, Permissions: vm.Spec.Permissions, LoggedInUser: vm.Status.LoggedInUser}
	if d := vm.Spec.VM.Display; d != nil {
		rights.LogInRequested = d.LoggedInUser != ""
	}
	for _, viewer := range currentViewers(vm) {
		if viewer.Kind != status.Serial && !viewer.Watches {
			rights.ConsoleUser = viewer.Who
			break
		}
	}
	return rights
}

func conditionOf(vm *v1.VirtualMachine, kind string) *metav1.Condition {
	return meta.FindStatusCondition(vm.Status.Conditions, kind)
}

// timeOf returns t; zero for the resource's default, the beginning of 1970.
func timeOf(t metav1.Time) time.Time {
	if t.Unix() <= 0 {
		return time.Time{}
	}
	return t.Time
}

// stateOf returns the state of a VM, from the phase that the manager has published.
func stateOf(vm *v1.VirtualMachine) fleet.State {
	s := vm.Status
	switch {
	case vm.DeletionTimestamp != nil:
		return fleet.Terminating
	case s.Phase == "":
		return fleet.Pending
	case s.Phase == v1.PhaseRunning, s.Phase == v1.PhaseMigrating:
		if ready := conditionOf(vm, v1.ConditionReady); ready != nil && ready.Status == metav1.ConditionFalse &&
			ready.Reason != string(vmstatus.ReasonVMStopped) {
			return fleet.Paused
		}
		return fleet.Running
	}
	return fleet.State(s.Phase)
}

// stateSince returns when a VM entered its state; zero if unknown.
func stateSince(vm *v1.VirtualMachine, pod *corev1.Pod, state fleet.State) time.Time {
	of := func(kind string) time.Time {
		if c := conditionOf(vm, kind); c != nil {
			return timeOf(c.LastTransitionTime)
		}
		return time.Time{}
	}
	switch state {
	case fleet.Terminating:
		if vm.DeletionTimestamp != nil {
			return vm.DeletionTimestamp.Time
		}
	case fleet.Paused:
		return of(v1.ConditionReady)
	case fleet.Running, fleet.Stopped:
		return of(v1.ConditionRunning)
	case fleet.Failed:
		if f := vm.Status.Failures; f != nil {
			return timeOf(f.LastTime)
		}
		return of(v1.ConditionVMTypeAccepted)
	case fleet.Stopping:
		if pod != nil && pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil {
			return pod.DeletionTimestamp.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
		}
	case fleet.Starting, fleet.Pending:
		if pod != nil {
			return pod.CreationTimestamp.Time
		}
	}
	return time.Time{}
}

// fillSize sets CPUs and RAM.
func fillSize(v *fleet.VM, vm *v1.VirtualMachine) {
	if s, err := class.SizeOf(vm); err == nil {
		s = s.WithSize()
		v.CPUs = fleet.Amount{Wanted: int64(s.CurrentCPUs), Maximum: int64(s.MaximumCPUs)}
		v.RAM = fleet.Amount{Wanted: int64(s.CurrentRAM), Maximum: int64(s.MaximumRAM)}
	}
	v.CPUs.Now = int64(vm.Status.CPUs)
	if ram, err := resource.ParseQuantity(vm.Status.RAM); err == nil {
		v.RAM.Now = ram.Value()
	}
}

// networkCards returns the network cards of a definition.
func networkCards(networks []v1.Network) (cards []fleet.Card) {
	for _, n := range networks {
		card := fleet.Card{Down: n.Link == string(vmspec.LinkDown)}
		switch {
		case n.Tap != nil:
			card.Network, card.Bridge = string(vmspec.NetworkTap), n.Tap.Bridge
			card.Model, card.MAC = n.Tap.Device, n.Tap.MAC
		case n.User != nil:
			card.Network, card.Model = string(vmspec.NetworkUser), n.User.Device
		case n.Masquerade != nil:
			card.Network, card.Model = string(vmspec.NetworkMasquerade), n.Masquerade.Device
		}
		cards = append(cards, card)
	}
	return cards
}

// guestSystem returns the name and the ID of the guest's operating system.
func guestSystem(vm *v1.VirtualMachine) (name, id string) {
	if vm.Status.OSInfo == nil {
		return "", ""
	}
	var info struct {
		ID     string `json:"id"`
		Name   string `json:"name"`
		Pretty string `json:"pretty-name"`
	}
	if json.Unmarshal(vm.Status.OSInfo.Raw, &info) != nil {
		return "", "" // a guest can report anything
	}
	return cmp.Or(info.Pretty, info.Name), info.ID
}

// guestAddresses returns the addresses of the guest.
func guestAddresses(vm *v1.VirtualMachine) []fleet.Address {
	var all []fleet.Address
	for _, k := range vm.Status.Addresses {
		a := fleet.Address{Address: k.Address, From: k.From, Claimed: k.Source == "Agent"}
		for _, p := range k.Ports {
			a.Ports = append(a.Ports, fleet.Port{
				TCP: p.Protocol == corev1.ProtocolTCP, Port: int(p.Port), Guest: int(p.Guest),
			})
		}
		all = append(all, a)
	}
	return all
}

// sshCommand returns the command that connects to the guest. It doesn't use the address of the pod, because users are
// outside the cluster network.
func sshCommand(vm *v1.VirtualMachine, all []fleet.Address) string {
	own := slices.DeleteFunc(slices.Clone(all), func(a fleet.Address) bool { return !a.Claimed })
	return describe.SSH(own, fmt.Sprintf("kubectl vmop ssh %s -n %s", vm.Name, vm.Namespace))
}

// currentViewers returns the viewers of the screen and console. Since is only known for a single viewer.
func currentViewers(vm *v1.VirtualMachine) (all []fleet.Viewer) {
	for _, v := range pool.Viewers(vm) {
		all = append(all, fleet.Viewer{Kind: v.Kind, Who: v.Who, Watches: v.Watches})
	}
	if len(all) == 1 {
		all[0].Since = timeOf(conditionOf(vm, v1.ConditionConsoleConnected).LastTransitionTime)
	}
	return all
}

// problemsOf returns the problems of a VM that its state doesn't show.
func problemsOf(vm *v1.VirtualMachine, v *fleet.VM) (all []fleet.Problem) {
	add := func(message string) {
		if message != "" && message != v.Message {
			all = append(all, fleet.Problem{Message: message})
		}
	}
	if v.State == fleet.Running && v.Reason != string(vmstatus.ReasonNoGuestAgent) {
		add(vm.Status.Message)
		v.Message = ""
	}
	kinds := []string{v1.ConditionVMTypeAccepted, v1.ConditionReconciled}
	if v.State.Up() {
		kinds = append(kinds, v1.ConditionConfigApplied)
	}
	for _, kind := range kinds {
		if c := conditionOf(vm, kind); c != nil && c.Status == metav1.ConditionFalse {
			add(c.Message)
		}
	}
	if c := conditionOf(vm, v1.ConditionTPMLost); c != nil && c.Status == metav1.ConditionTrue {
		add(c.Message)
	}
	return all
}

// detailsOf returns further facts about a VM.
func detailsOf(vm *v1.VirtualMachine, pod *corev1.Pod) (all []fleet.Detail) {
	add := func(key, format string, values ...any) {
		all = append(all, fleet.Detail{Key: key, Value: fmt.Sprintf(format, values...)})
	}
	s := &vm.Status
	if pod != nil {
		add("pod", "%s", pod.Name)
	}
	if s.RunnerVersion != "" {
		add("runner", "%s", s.RunnerVersion)
	}
	if a := s.Assignment; a != nil {
		add("assigned", "%s (%s)", a.User, a.Pool)
	}
	for _, p := range s.Privileges {
		add("privilege", "%s (%s)", p.Name, p.Reason)
	}
	if s.UUID != "" {
		add("uuid", "%s", s.UUID)
	}
	return all
}
