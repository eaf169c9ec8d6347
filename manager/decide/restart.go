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
	"vmop/manager/objects"
	"vmop/vmstatus"
)

// Reasons of RestartRequired: nothing waits, a user is to restart the VM, or the
// manager is, and why it doesn't yet.
const (
	ReasonRestartedAlready = "RestartedAlready"
	ReasonRestartRate      = "WaitingForRateLimit"
	ReasonRestartStale     = "NotFresh"
	ReasonRestartRefused   = "TypeRefused"
	ReasonRestartBlocked   = "CannotStart"
	ReasonRestartNotUp     = "NotRunning"
	ReasonRestartMigrating = "Migrating"
)

// A Restart is what becomes of changes that await one.
type Restart struct {
	// Condition is RestartRequired.
	Condition Verdict
	// Record is what the status has about the manager's latest restart; nil: nothing.
	Record *v1.AutomaticRestart
	// Due means that the manager restarts the VM as soon as it is the VM's turn; see Advance.
	Due bool
	// Busy means that a restart by the manager is under way: the VM is not up again.
	Busy bool
	// Delete means that the pod is to be deleted, whose restart is recorded.
	Delete bool
	// Update is the operation by which the guest gets the changes without a restart; nil if it needs one. Create means
	// that it is to be created.
	Update *v1.VirtualMachineOperation
	Create bool

	stays   string   // why the guest can't be ended now
	changes []string // hashes
	awaits  string   // which changes await a restart, for people
}

// RestartOf returns what becomes of the changes of a VM that await a restart.
//
// A restart by the manager takes two steps, so that one who is killed in between restarts no
// VM twice: it is recorded in the status for which pod and changes it is, and when the status
// says so, that pod is deleted. A change that is still there in the next pod is not
// restarted for again. See docs/decisions/0088-automatic-restarts.md.
func RestartOf(s Situation, found Findings) Restart {
	changes := awaiting(s, found)
	r := Restart{Condition: restartRequired(s, found, changes), changes: hashesOf(changes)}
	r.awaits = r.Condition.Message
	done := s.VM.Status.AutomaticRestart
	if s.VM.Spec.RestartApproval() != v1.RestartAutomatic || !s.Wanted() {
		return r // what was tried counts no more
	}
	inPast := done != nil && s.Pod != nil && done.PodUID != s.Pod.UID
	r.Busy = done != nil && (s.Pod == nil || Terminating(s.Pod) || inPast && !s.up())
	if r.Record = done; len(changes) == 0 {
		if inPast && s.compared(found) {
			r.Record = nil // it has helped
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
		reason, message = ReasonRestartNotUp, r.stays
	case inPast && !slices.ContainsFunc(r.changes, func(h string) bool { return !slices.Contains(done.Changes, h) }):
		reason = ReasonRestartedAlready
		message = "the manager has restarted the VM for that, and it has not helped: " +
			"revert the changes, or restart the VM yourself"
	default:
		reason, r.Due = ReasonRestartRate, true
		message = "the manager restarts the VM when it is its turn (automaticRestarts of the manager's configuration)"
	}
	r.explain(reason, message)
	return r
}

// explain makes the condition tell what becomes of the changes.
func (r *Restart) explain(reason, message string) {
	r.Condition.Reason, r.Condition.Message = reason, Shorten(r.awaits+"; "+message, MaxMessage)
}

const restartsNow = "the manager restarts the VM now"

// Advance takes the next step of a restart that is due, when it is the VM's turn. all are the VM's operations.
func (r *Restart) Advance(s Situation, all []*v1.VirtualMachineOperation) {
	r.explain(ReasonRestarting, restartsNow)
	switch {
	case r.Record == nil || r.Record.PodUID != s.Pod.UID || !slices.Equal(r.Record.Changes, r.changes):
		r.Record = &v1.AutomaticRestart{
			PodUID: s.Pod.UID, Changes: r.changes, Time: metav1.NewTime(s.Now.Truncate(time.Second)),
		}
	case r.Update == nil:
		r.Delete = true
	default:
		r.update(all)
	}
}

// awaiting returns the changes that await a restart, those found by the manager and those
// reported by the runner, by path.
func awaiting(s Situation, found Findings) []v1.RestartAwaitingChange {
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

// restartRequired is whether changes wait for a restart.
func restartRequired(s Situation, found Findings, changes []v1.RestartAwaitingChange) Verdict {
	switch {
	case len(changes) == 0 && found.Type.Status == metav1.ConditionFalse && s.Pod != nil:
		return Verdict{metav1.ConditionUnknown, found.Type.Reason, "it is not known what a restart would change, " +
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

// mayNotRestart says why the manager doesn't restart a VM now; "": it may. What is known must
// be about the present pod and the present definition, and the VM one that starts again.
func (s Situation) mayNotRestart(found Findings) (reason, message string) {
	runner := s.VM.Status.Runner
	switch {
	case !s.Wanted() || s.Pod == nil || Terminating(s.Pod):
		return ReasonRestartNotUp, "the VM is not running"
	case runner == nil || runner.PodUID != s.Pod.UID || !running(s.Pod):
		return ReasonRestartNotUp, "the VM's runner has not reported yet"
	case s.VM.Status.Migration.Active():
		return ReasonRestartMigrating, "the guest is being moved to another pod"
	case found.Type.Status == metav1.ConditionFalse:
		return ReasonRestartRefused, "the VM could not be started again: its type is not accepted (VMTypeAccepted)"
	case s.Obstacle != nil:
		return ReasonRestartBlocked, "the VM could not be started again: " + obstacleMessage(s.Obstacle)
	case !s.compared(found):
		return ReasonRestartStale, fmt.Sprintf("the VM's runner has not compared the machine with generation %d "+
			"of the definition yet", s.VM.Generation)
	}
	return "", ""
}

// mayNotEnd says why the guest of a VM whose runner has reported can't be asked to shut down now; "" if it can.
func (s Situation) mayNotEnd() string {
	const not = "the guest could not be asked to shut down now: it is "
	switch {
	case !s.up():
		return not + s.VM.Status.Runner.State
	case !meta.IsStatusConditionTrue(s.VM.Status.Conditions, v1.ConditionReady):
		return not + "not ready"
	}
	return ""
}

// up reports whether the guest in the present pod has booted, as far as can be known.
func (s Situation) up() bool {
	runner := s.VM.Status.Runner
	return s.Pod != nil && runner != nil && runner.PodUID == s.Pod.UID &&
		(runner.State == string(vmstatus.StateRunning) || runner.State == string(vmstatus.StateBooted))
}

// compared reports whether the runner and the manager have compared what runs with the present
// definition, from which the next pod is made.
func (s Situation) compared(found Findings) bool {
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

// mostHashes is how many changes of a restart are remembered.
const mostHashes = 128

// hashesOf returns a short text for each change that differs if the path or the wish does.
func hashesOf(changes []v1.RestartAwaitingChange) []string {
	var all []string
	for _, c := range changes[:min(len(changes), mostHashes)] {
		_, desired := c.Values()
		text, err := json.Marshal([]any{c.Path, desired})
		if err != nil { // it was JSON
			text = []byte(c.Path)
		}
		sum := sha256.Sum256(text)
		all = append(all, hex.EncodeToString(sum[:6]))
	}
	return all
}
