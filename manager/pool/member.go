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

// A Viewer looks at the screen or the console of a VM.
type Viewer struct {
	Kind string // status.SPICE, status.VNC or status.Serial
	Who  string // a user, or the address of a client that has come to the screen by itself
	// Watches: another viewer of this kind types.
	Watches bool
}

// Viewers returns who looks at the screen and the console of a VM: the runner names them in its condition
// (runner/status, viewers), with the kind of connection.
func Viewers(vm *v1.VirtualMachine) (all []Viewer) {
	c := meta.FindStatusCondition(vm.Status.Conditions, v1.ConditionConsoleConnected)
	if c == nil {
		return nil
	}
	if c.Message == "" && c.Status == metav1.ConditionTrue { // VM-Operator's runners say nothing
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
		if slices.Contains(kinds, kind) { // else: and more, or another program's
			all = append(all, Viewer{Kind: kind, Who: who, Watches: watches})
		}
	}
	return all
}

// ConsoleUser returns the user who uses the screen of a VM, or was the last to do so; "" if none is known.
func ConsoleUser(vm *v1.VirtualMachine) string {
	for _, v := range Viewers(vm) {
		if v.Kind == status.Serial || v.Watches {
			continue
		}
		if !isAddress(v.Who) {
			return v.Who
		}
		if a := vm.Status.Assignment; a != nil { // who else could know the password?
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

// A Member is a VM that is in pools, or is assigned to a user, as far as pools look at it.
type Member struct {
	Name    string
	UID     types.UID
	Version string // of the resource
	Pools   []string
	// Assignment is who has it; nil: it is not assigned.
	Assignment *v1.Assignment
	// Phase of the VM; Wanted: it is to run; Fixed: its runPolicy has decided that.
	Phase         v1.Phase
	Wanted, Fixed bool
	// Deleting: it is being deleted.
	Deleting bool
	// Viewed: it has a viewer now. Used is when its user came last, or went; zero if that is not known.
	Viewed bool
	Used   time.Time
	// Left is when the last viewer went, whoever it was; zero if that is not known.
	Left time.Time
	// Made is the uid of the pool that has made the VM of its template; "" if none has. It is the VM's owner: a label
	// is copied with a definition, and what a pool has made it deletes with its disks.
	Made types.UID
}

// Concerns reports whether a VM is in pools, or assigned.
func Concerns(vm *v1.VirtualMachine) bool {
	return len(vm.Spec.Pools) > 0 || vm.Status.Assignment != nil || makerOf(vm) != ""
}

// makerOf returns the uid of the pool that owns a VM; "" if none does.
func makerOf(vm *v1.VirtualMachine) types.UID {
	if owner := metav1.GetControllerOfNoCopy(vm); owner != nil && owner.Kind == kindOfPool {
		return owner.UID
	}
	return ""
}

const kindOfPool = "VmPool"

// MemberOf returns a VM as pools look at it.
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

// isRunning reports whether a user who gets the VM can use it at once.
func (m Member) isRunning() bool {
	return m.Wanted && (m.Phase == v1.PhaseRunning || m.Phase == v1.PhaseMigrating)
}

// In reports whether the VM belongs to a pool.
func (m Member) In(pool string) bool { return slices.Contains(m.Pools, pool) }

// isAssignedBy reports whether the VM is assigned by a pool.
func (m Member) isAssignedBy(pool string) bool {
	return m.Assignment != nil && m.Assignment.Pool == pool
}

// isReleased reports whether the VM is to be replaced by a new one.
func (m Member) isReleased() bool { return m.Assignment != nil && m.Assignment.Released != nil }
