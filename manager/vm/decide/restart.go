package decide

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
	"vmop/vmstatus"
)

// Reasons of RestartRequired: no change is pending, a user must restart the VM, the manager restarts it, or the
// manager can't restart it yet.
const (
	reasonRestartedAlready = "RestartedAlready"
	reasonRestartRate      = "WaitingForRateLimit"
	reasonRestartStale     = "NotFresh"
	reasonRestartRefused   = "TypeRefused"
	reasonRestartBlocked   = "CannotStart"
	reasonRestartNotUp     = "NotRunning"
	reasonRestartMigrating = "Migrating"
)

// Restart describes how pending changes reach the guest.
type Restart struct {
	// Condition is the condition RestartRequired.
	Condition Verdict
	// Record is the manager's latest restart for the status; nil if the status shows no restart.
	Record *v1.AutomaticRestart
	// Due means that the manager restarts the VM as soon as it is the VM's turn; see Advance.
	Due bool
	// Busy means that the manager is restarting the VM, and the VM is not up again.
	Busy bool
	// Delete means that the restart is recorded, and the pod must be deleted.
	Delete bool
	// Update is the operation that applies the changes to the guest without a restart; nil if a restart is required.
	// Create means that the operation must be created.
	Update *v1.VirtualMachineOperation
	Create bool

	stays   string   // why the guest can't be ended now
	changes []string // hashes
	awaits  string   // the pending changes, for users
}

// RestartOf returns what happens to the changes of a VM that are pending until a restart.
//
// A restart by the manager takes two steps, so that a manager that is killed in between doesn't restart a VM twice.
// First the status records the pod and the changes. When the status shows this record, the manager deletes the pod.
// A change that is still pending in the next pod doesn't cause another restart. See
// docs/decisions/0088-automatic-restarts.md.
func RestartOf(s Situation, found Findings) Restart {
	changes := changesAwaitingRestart(s, found)
	r := Restart{Condition: restartRequired(s, found, changes), changes: hashesOf(changes)}
	r.awaits = r.Condition.Message
	done := s.VM.Status.AutomaticRestart
	if s.VM.Spec.RestartApproval() != v1.RestartAutomatic || !s.Wanted() {
		return r // earlier attempts no longer count
	}
	inPast := done != nil && s.Pod != nil && done.PodUID != s.Pod.UID
	r.Busy = done != nil && (s.Pod == nil || Terminating(s.Pod) || inPast && !s.hasBooted())
	if r.Record = done; len(changes) == 0 {
		if inPast && s.hasCompared(found) {
			r.Record = nil // the restart has helped
		}
		return r
	}
	reason, message := s.mayNotRestart(found)
	if reason == "" {
		r.Update, r.stays = updateOf(s, changes, r.changes), s.mayNotEnd()
	}
	switch {
	case reason != "":
	case r.stays != "" && r.Update == nil:
		reason, message = reasonRestartNotUp, r.stays
	case inPast && !slices.ContainsFunc(r.changes, func(h string) bool { return !slices.Contains(done.Changes, h) }):
		reason = reasonRestartedAlready
		message = "the manager has restarted the VM, but the changes are still pending: " +
			"revert the changes, or restart the VM yourself"
	default:
		reason, r.Due = reasonRestartRate, true
		message = "the manager will restart the VM after other VMs (automaticRestarts in the manager's configuration)"
	}
	r.explainRestart(reason, message)
	return r
}

// explainRestart adds to the condition what happens to the changes.
func (r *Restart) explainRestart(reason, message string) {
	r.Condition.Reason, r.Condition.Message = reason, Shorten(r.awaits+"; "+message, MaxMessage)
}

const restartsNow = "the manager restarts the VM now"

// Advance takes the next step of a due restart when it is the VM's turn. all are the VM's operations.
func (r *Restart) Advance(s Situation, all []*v1.VirtualMachineOperation) {
	r.explainRestart(reasonRestarting, restartsNow)
	switch {
	case r.Record == nil || r.Record.PodUID != s.Pod.UID || !slices.Equal(r.Record.Changes, r.changes):
		r.Record = &v1.AutomaticRestart{
			PodUID: s.Pod.UID, Changes: r.changes, Time: metav1.NewTime(s.Now.Truncate(time.Second)),
		}
	case r.Update == nil:
		r.Delete = true
	default:
		r.updateOperation(all)
	}
}

// changesAwaitingRestart returns the changes that are pending until a restart, from the manager and from the runner,
// sorted by path.
func changesAwaitingRestart(s Situation, found Findings) []v1.RestartAwaitingChange {
	all := slices.Clone(found.Changes)
	for _, c := range s.VM.Status.RestartAwaitingChanges {
		known := slices.ContainsFunc(found.Changes, func(f v1.RestartAwaitingChange) bool { return f.Path == c.Path })
		if !known && !objects.OfPod(c.Path) {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b v1.RestartAwaitingChange) int { return cmp.Compare(a.Path, b.Path) })
	return all
}

// restartRequired returns the condition whether changes are pending until a restart.
func restartRequired(s Situation, found Findings, changes []v1.RestartAwaitingChange) Verdict {
	switch {
	case len(changes) == 0 && found.Type.Status == metav1.ConditionFalse && s.Pod != nil:
		return Verdict{metav1.ConditionUnknown, found.Type.Reason, "cannot determine what a restart would change, " +
			"and the VM could not be started again: its type is not accepted (VMTypeAccepted)"}
	case len(changes) == 0:
		return Verdict{metav1.ConditionFalse, reasonNothingPending, ""}
	}
	paths := make([]string, len(changes))
	for i, c := range changes {
		paths[i] = c.Path
	}
	return Verdict{
		metav1.ConditionTrue, reasonChangesPending,
		Shorten("waiting for a restart: "+strings.Join(paths, ", "), MaxMessage),
	}
}

// mayNotRestart returns why the manager can't restart a VM now, or "" if it can. All information must be about the
// current pod and the current definition, and the VM must be able to start again.
func (s Situation) mayNotRestart(found Findings) (reason, message string) {
	runner := s.VM.Status.Runner
	switch {
	case !s.Wanted() || s.Pod == nil || Terminating(s.Pod):
		return reasonRestartNotUp, "the VM is not running"
	case runner == nil || runner.PodUID != s.Pod.UID || !isContainerRunning(s.Pod):
		return reasonRestartNotUp, "the VM's runner has not reported yet"
	case s.VM.Status.Migration.Active():
		return reasonRestartMigrating, "the guest is migrating to another pod"
	case found.Type.Status == metav1.ConditionFalse:
		return reasonRestartRefused, "the VM could not be started again: its type is not accepted (VMTypeAccepted)"
	case s.Obstacle != nil:
		return reasonRestartBlocked, "the VM could not be started again: " + obstacleMessage(s.Obstacle)
	case !s.hasCompared(found):
		return reasonRestartStale, fmt.Sprintf("the VM's runner has not compared the machine with generation %d "+
			"of the definition yet", s.VM.Generation)
	}
	return "", ""
}

// mayNotEnd returns why the guest can't be asked to shut down now, or "" if it can. The VM's runner must have
// reported.
func (s Situation) mayNotEnd() string {
	const not = "the guest could not be asked to shut down now: it is "
	switch {
	case !s.hasBooted():
		return not + s.VM.Status.Runner.State
	case !meta.IsStatusConditionTrue(s.VM.Status.Conditions, v1.ConditionReady):
		return not + "not ready"
	}
	return ""
}

// hasBooted reports whether the guest in the current pod has booted, as far as the manager can know.
func (s Situation) hasBooted() bool {
	runner := s.VM.Status.Runner
	return s.Pod != nil && runner != nil && runner.PodUID == s.Pod.UID &&
		(runner.State == string(vmstatus.StateRunning) || runner.State == string(vmstatus.StateBooted))
}

// hasCompared reports whether runner and manager have compared the running VM with the current definition, from which
// the next pod is created.
func (s Situation) hasCompared(found Findings) bool {
	is := s.VM.Status
	return s.Pod != nil && is.Runner != nil && is.Runner.PodUID == s.Pod.UID &&
		is.Runner.ComparedGeneration == s.VM.Generation && is.ObservedGeneration == s.VM.Generation && found.Applied
}

func obstacleMessage(o Obstacle) string {
	switch o := o.(type) {
	case Waiting:
		return o.Message
	case Stalled:
		return o.Message
	}
	return ""
}

// mostHashes is the maximum number of changes that a restart records.
const mostHashes = 128

// hashesOf returns a short hash of each change. Hashes differ if the paths or the desired values do.
func hashesOf(changes []v1.RestartAwaitingChange) []string {
	var all []string
	for _, c := range changes[:min(len(changes), mostHashes)] {
		_, desired := c.Values()
		text, err := json.Marshal([]any{c.Path, desired})
		if err != nil { // the value was JSON before
			text = []byte(c.Path)
		}
		sum := sha256.Sum256(text)
		all = append(all, hex.EncodeToString(sum[:6]))
	}
	return all
}
