package decide

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
)

// updatePrefix begins the names of operations by which what a pod is made with reaches a running guest.
const updatePrefix = "update-"

// updateOf returns the operation by which the guest gets what awaits a restart without one; nil if a restart is needed.
func updateOf(s Situation, changes []v1.RestartAwaitingChange, hashes []string) *v1.VirtualMachineOperation {
	how, _ := objects.Update(s.VM, changes, s.Pod.Spec.NodeName)
	if how == nil {
		return nil
	}
	uid, _, _ := strings.Cut(string(s.Pod.UID), "-")
	sum := sha256.Sum256([]byte(strings.Join(hashes, " ")))
	o := &v1.VirtualMachineOperation{}
	o.Name = updatePrefix + s.VM.Name + "-" + uid + "-" + hex.EncodeToString(sum[:6])
	o.Namespace = s.VM.Namespace
	o.Spec = v1.VirtualMachineOperationSpec{Type: v1.OperationMigrate, VirtualMachineName: s.VM.Name, Migrate: how}
	return o
}

// update decides about the operation of a restart whose record is written: it is created, waited for, or has failed,
// and the pod is deleted as soon as the guest can be asked to shut down.
func (r *Restart) update(all []*v1.VirtualMachineOperation) {
	at := slices.IndexFunc(all, func(o *v1.VirtualMachineOperation) bool { return o.Name == r.Update.Name })
	underWay := slices.ContainsFunc(all, func(o *v1.VirtualMachineOperation) bool { return !o.Status.Phase.Finished() })
	message := "the manager moves the guest to a pod that has them, without a restart"
	switch {
	case at < 0 && !underWay:
		r.Create = true
	case at >= 0 && all[at].Spec.Type == v1.OperationMigrate && all[at].Status.Phase == v1.OperationCompleted:
	case underWay:
	case r.stays != "":
		r.explain(ReasonRestartNotUp, r.stays)
		return
	default:
		r.Delete, message = true, restartsNow
	}
	r.explain(ReasonRestarting, message)
}
