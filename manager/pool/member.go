package pool

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/runner/status"
)

// A Viewer is connected to the screen or console of a VM.
type Viewer struct {
	Kind string // status.SPICE, status.VNC or status.Serial
	Who  string // a user, or the address of a client that connected directly
	// Watches reports that the viewer only watches: another viewer of this kind has the keyboard.
	Watches bool
}

// Viewers returns the viewers of the screen and console of a VM. The runner lists them in the VM's condition
// (runner/status, viewers).
func Viewers(vm *v1.VirtualMachine) (all []Viewer) {
	c := meta.FindStatusCondition(vm.Status.Conditions, v1.ConditionConsoleConnected)
	if c == nil {
		return nil
	}
	if c.Message == "" && c.Status == metav1.ConditionTrue { // VM-Operator's runners list no viewers
		who := vm.Status.ConsoleUser
		if who == "" {
			who = vm.Status.ConsoleClient
		}
		return []Viewer{{Kind: status.SPICE, Who: who}}
	}
	for text := range strings.SplitSeq(c.Message, status.Separator) {
		text, watches := strings.CutPrefix(text, status.Watching)
		kind, who, _ := strings.Cut(text, " ")
		kinds := []string{status.SPICE, status.VNC, status.Serial}
		if slices.Contains(kinds, kind) { // skips "and more", and unknown kinds
			all = append(all, Viewer{Kind: kind, Who: who, Watches: watches})
		}
	}
	return all
}

// ConsoleUser returns the current or last user of a VM's screen; "" if unknown.
func ConsoleUser(vm *v1.VirtualMachine) string {
	for _, v := range Viewers(vm) {
		if v.Kind == status.Serial || v.Watches {
			continue
		}
		if !isAddress(v.Who) {
			return v.Who
		}
		if a := vm.Status.Assignment; a != nil { // only the assigned user can know the password
			return a.User
		}
	}
	return vm.Status.ConsoleUser
}

func isAddress(who string) bool {
	if _, err := netip.ParseAddr(who); err == nil {
		return true
	}
	_, err := netip.ParseAddrPort(who)
	return err == nil
}

// A Member is a VM that is in pools or assigned to a user, reduced to what pools need.
type Member struct {
	Name    string
	UID     types.UID
	Version string // resource version
	Pools   []string
	// Assignment contains the VM's user; nil if it is unassigned.
	Assignment *v1.Assignment
	// Phase is the VM's phase. Wanted reports that the VM should run. Fixed reports that its runPolicy decides that.
	Phase         v1.Phase
	Wanted, Fixed bool
	// Deleting reports that the VM is being deleted.
	Deleting bool
	// Viewed reports that the VM has a viewer now. Used is when its user last connected or disconnected; zero if
	// unknown.
	Viewed bool
	Used   time.Time
	// Left is when the last viewer disconnected; zero if unknown.
	Left time.Time
	// Made is the UID of the pool that created the VM from its template; "" if no pool did. It comes from the owner
	// reference: a label would be copied with a definition, and the pool deletes the VMs that it created with their
	// disks.
	Made types.UID
}

// Concerns reports whether a VM is in pools, assigned, or created by a pool.
func Concerns(vm *v1.VirtualMachine) bool {
	return len(vm.Spec.Pools) > 0 || vm.Status.Assignment != nil || makerOf(vm) != ""
}

// makerOf returns the UID of the pool that owns a VM; "" if no pool does.
func makerOf(vm *v1.VirtualMachine) types.UID {
	if owner := metav1.GetControllerOfNoCopy(vm); owner != nil && owner.Kind == kindOfPool {
		return owner.UID
	}
	return ""
}

const kindOfPool = "VmPool"

// MemberOf returns a VM as a Member.
func MemberOf(vm *v1.VirtualMachine) Member {
	m := Member{
		Name: vm.Name, UID: vm.UID, Version: vm.ResourceVersion, Pools: vm.Spec.Pools,
		Assignment: vm.Status.Assignment.DeepCopy(),
		Phase:      vm.Status.Phase, Wanted: vm.Spec.DesiredState() == v1.Running, Fixed: !vm.Spec.StateIsFree(),
		Deleting: vm.DeletionTimestamp != nil, Made: makerOf(vm),
	}
	viewers := Viewers(vm)
	m.Viewed = slices.ContainsFunc(viewers, func(v Viewer) bool { return !v.Watches })
	c := meta.FindStatusCondition(vm.Status.Conditions, v1.ConditionConsoleConnected)
	if c == nil || c.LastTransitionTime.Unix() <= 0 { // the resource's default is the beginning of 1970
		return m
	}
	if c.Status != metav1.ConditionTrue {
		m.Left = c.LastTransitionTime.Time
	}
	if m.Assignment != nil && ConsoleUser(vm) == m.Assignment.User {
		m.Used = c.LastTransitionTime.Time
	}
	return m
}

// isRunning reports whether a user can use the VM immediately.
func (m Member) isRunning() bool {
	return m.Wanted && (m.Phase == v1.PhaseRunning || m.Phase == v1.PhaseMigrating)
}

// In reports whether the VM belongs to a pool.
func (m Member) In(pool string) bool { return slices.Contains(m.Pools, pool) }

// isAssignedBy reports whether this pool assigned the VM.
func (m Member) isAssignedBy(pool string) bool {
	return m.Assignment != nil && m.Assignment.Pool == pool
}

// isReleased reports whether the VM has been released, and waits for its replacement.
func (m Member) isReleased() bool { return m.Assignment != nil && m.Assignment.Released != nil }
