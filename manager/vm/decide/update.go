package decide

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
)

// updatePrefix starts the names of operations that bring changes of the pod to a running guest.
const updatePrefix = "update-"

// updateOf returns the operation that applies pending changes to the guest without a restart, or nil if a restart is
// required.
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

// updateOperation advances a recorded restart through its operation: it creates the operation or waits for it. If the
// operation has failed, it deletes the pod as soon as the guest can be asked to shut down.
func (r *Restart) updateOperation(all []*v1.VirtualMachineOperation) {
	at := slices.IndexFunc(all, func(o *v1.VirtualMachineOperation) bool { return o.Name == r.Update.Name })
	underWay := slices.ContainsFunc(all, func(o *v1.VirtualMachineOperation) bool { return !o.Status.Phase.Finished() })
	message := "the manager moves the guest to a pod that has them, without a restart"
	switch {
	case at < 0 && !underWay:
		r.Create = true
	case at >= 0 && all[at].Spec.Type == v1.OperationMigrate && all[at].Status.Phase == v1.OperationCompleted:
	case underWay:
	case r.stays != "":
		r.explainRestart(reasonRestartNotUp, r.stays)
		return
	default:
		r.Delete, message = true, restartsNow
	}
	r.explainRestart(reasonRestarting, message)
}
