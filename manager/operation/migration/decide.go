package migration

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
	"vmop/vmstatus"
)

// Times.
const (
	// prepareTime is the time limit for the second pod until its runner waits for the guest. It includes scheduling,
	// and preparing the image and volumes.
	prepareTime = 5 * time.Minute
	// reportTime is how long the target runner has to report after the source runner has confirmed the move.
	reportTime = 15 * time.Second
	// askAgain is the delay before checking again whether a migration can begin. askPause is the delay before asking a
	// source again that didn't answer, or that is ending the migration.
	askAgain = 5 * time.Second
	askPause = time.Second
)

// A Situation describes a VM with a migration that is active or requested.
type Situation struct {
	*decide.Snapshot
	// Operation is the operation in progress that requests the move; nil if there is none, or it is gone.
	Operation *v1.VirtualMachineOperation
	// Call is this process's request.
	Call Call
	// Full is why no further migration can begin; "" if one can.
	Full string
	// Disks are the disks to copy when Operation begins. NoCopies is why they can't be copied.
	Disks    []v1.MigrationDisk
	NoCopies string
	// Switched reports that a disk uses its copy, so the guest has moved.
	Switched bool
	// Left reports that leftovers of the last migration must be removed before another migration begins.
	Left bool
}

// A Call is this process's view of the request to the source runner.
type Call struct {
	// Running reports that there is no answer yet.
	Running bool
	// Result is the answer.
	Result Result
	// Message is the error, if the guest stayed or the result is unknown.
	Message string
	// Transferred is in bytes, Progress in percent.
	Transferred int64
	Progress    int32
	// At is when the answer arrived.
	At time.Time
}

// A Result is the answer of a source runner.
type Result int

// Possible results.
const (
	None    Result = iota // the runner was not asked
	Moved                 // the guest is in the target
	Stayed                // the guest is in the source
	Unknown               // there was no clear answer
)

// A Plan contains the next actions. Record is written first; everything else follows after a successful write.
type Plan struct {
	// Record is the migration to write to the VM's status, together with Ordinal; nil for no write.
	Record  *v1.Migration
	Ordinal int32
	// Begin asks the source to move its guest. Query asks for the result of an earlier request. Cancel cancels the
	// request. Forget forgets the answer.
	Begin, Query, Cancel, Forget bool
	// Switch makes the disks use their copies. This happens before Record is written.
	Switch bool
	// Again is when to decide again without a change; zero means never.
	Again time.Time
}

// Decide returns the next actions.
func Decide(s Situation) Plan {
	m := s.VM.Status.Migration
	if !m.Active() {
		return s.beginMigration()
	}
	if s.targetReports() || s.Switched {
		return s.completedPlan()
	}
	if m.Stage == v1.MigrationPreparing {
		return s.awaitTarget()
	}
	switch call := s.Call; {
	case call.Running && s.whyUnwanted() != "":
		return Plan{Cancel: true}
	case call.Running && call.Progress/progressStep > m.Progress/progressStep:
		record := m.DeepCopy()
		record.Progress = call.Progress
		return s.writePlan(record)
	case call.Running:
		return Plan{}
	case call.Result == Stayed:
		return s.failedPlan(cmp.Or(s.whyUnwanted(), call.Message))
	case call.Result == Moved && s.Other != nil && s.Now.Before(call.At.Add(reportTime)):
		return Plan{Again: call.At.Add(reportTime)}
	case call.Result == Moved:
		return s.completedPlan()
	}
	return s.resumePlan()
}

// beginMigration begins a migration, if an operation requests it.
func (s Situation) beginMigration() Plan {
	o, m := s.Operation, s.VM.Status.Migration
	if o == nil || m != nil && m.OperationUID == o.UID {
		return Plan{}
	}
	record := &v1.Migration{
		Operation: o.Name, OperationUID: o.UID, Stage: v1.MigrationPreparing, StartTime: metav1.NewTime(s.Now),
		Message: "starting the target pod",
		Target:  v1.MigrationPod{Pod: objects.PodName(s.VM.Name, objects.OtherOrdinal(s.VM))},
		Disks:   s.Disks,
	}
	if o.Spec.Migrate != nil {
		record.NodeSelector = o.Spec.Migrate.NodeSelector
	}
	if s.Pod != nil {
		record.Source = podOf(s.Pod)
	}
	switch why := cmp.Or(s.whyUnwanted(), s.NoCopies); {
	case s.Left:
		return Plan{Again: s.Now.Add(askAgain)}
	case why != "":
		record.Stage, record.Message, record.EndTime = v1.MigrationFailed, why, &record.StartTime
	case s.Full != "", s.Other != nil: // a pod of an earlier migration is left
		return Plan{Again: s.Now.Add(askAgain)}
	}
	return s.writePlan(record)
}

// awaitTarget waits until the target is ready for the guest.
func (s Situation) awaitTarget() Plan {
	m, target := s.VM.Status.Migration, s.Other
	deadline := m.StartTime.Add(prepareTime)
	here := target != nil && s.VM.Status.Arriving != nil && s.VM.Status.Arriving.PodUID == target.UID
	switch why := cmp.Or(s.whyUnwanted(), s.NoCopies); {
	case why != "":
		return s.failedPlan(why)
	case here && s.VM.Status.Arriving.Stage == vmstatus.ArrivalFailed:
		return s.failedPlan("the target can't receive the guest: " + s.VM.Status.Arriving.Message)
	case here && s.VM.Status.Arriving.Control != nil && target.Status.PodIP != "" && !decide.Terminating(target):
		record := m.DeepCopy()
		record.Stage, record.Message = v1.MigrationMoving, "the guest is being moved"
		record.Target = podOf(target)
		p := s.writePlan(record)
		p.Begin = true
		return p
	case !s.Now.Before(deadline):
		return s.failedPlan(fmt.Sprintf("the pod %s wasn't ready within %s: %s", m.Target.Pod, prepareTime,
			podWaitText(target)))
	}
	return Plan{Again: deadline}
}

// resumePlan continues a migration when it is unknown whether the guest has moved.
func (s Situation) resumePlan() Plan {
	arriving := s.VM.Status.Arriving
	switch {
	case s.Pod != nil && decide.OutcomeIn(s.VM, s.Pod) == nil && s.Call.Result == None:
		return Plan{Query: true}
	case s.Other == nil, arriving != nil && arriving.PodUID == s.Other.UID && arriving.Stage == vmstatus.ArrivalFailed:
		return s.failedPlan(cmp.Or(s.whyUnwanted(), s.Call.Message, "it was interrupted"))
	}
	return Plan{Forget: s.Call.Result == Unknown && s.Now.Sub(s.Call.At) >= askPause, Again: s.Now.Add(askPause)}
}

// whyUnwanted returns why the guest should no longer move; "" if it should.
func (s Situation) whyUnwanted() string {
	switch {
	case s.Operation == nil:
		return "the operation was deleted or replaced"
	case s.VM.DeletionTimestamp != nil:
		return "the VM is being deleted"
	case !s.Wanted():
		return "the VM is being stopped"
	case s.Pod == nil, decide.Terminating(s.Pod):
		return "the VM's pod is being deleted"
	}
	if o := decide.OutcomeIn(s.VM, s.Pod); o != nil {
		return "the guest has ended: " + cmp.Or(o.Message, o.Cause)
	}
	return objects.Unmovable(s.VM, s.copiesDisks())
}

// copiesDisks reports whether the migration copies disks.
func (s Situation) copiesDisks() bool {
	if m := s.VM.Status.Migration; m.Active() {
		return len(m.Disks) > 0
	}
	return Copies(s.VM, s.Operation)
}

// Copies reports whether a migration by operation o copies the VM's disks. o may be nil.
func Copies(vm *v1.VirtualMachine, o *v1.VirtualMachineOperation) bool {
	return o != nil && objects.CopiesDisks(vm, o.Spec.Migrate)
}

// targetReports reports whether the target runner reports the VM's status, so it has the guest.
func (s Situation) targetReports() bool {
	r := s.VM.Status.Runner
	return s.Other != nil && r != nil && r.PodUID == s.Other.UID
}

func (s Situation) completedPlan() Plan {
	record := s.endedStatus(v1.MigrationCompleted, "")
	if s.Other != nil {
		record.Target = podOf(s.Other)
	}
	record.Message, record.Progress = "the guest is running on node "+record.Target.NodeName, 100
	p := s.writePlan(record)
	p.Ordinal, p.Forget, p.Switch = objects.OtherOrdinal(s.VM), true, len(record.Disks) > 0
	return p
}

func (s Situation) failedPlan(why string) Plan {
	record := s.endedStatus(v1.MigrationFailed, decide.Readable(why))
	if len(record.Disks) > 0 && !s.hasStayed() {
		record.CopiesKept = true
		record.Message += "; it isn't certain that the guest hasn't run there, so the copies of its disks stay"
	}
	p := s.writePlan(record)
	p.Forget = true
	return p
}

// hasStayed reports whether the guest has definitely not moved: the move had not begun, or a runner has reported so.
func (s Situation) hasStayed() bool {
	arriving := s.VM.Status.Arriving
	return s.VM.Status.Migration.Stage == v1.MigrationPreparing || s.Call.Result == Stayed ||
		s.Other != nil && arriving != nil && arriving.PodUID == s.Other.UID && arriving.Stage == vmstatus.ArrivalFailed
}

func (s Situation) endedStatus(stage v1.MigrationStage, message string) *v1.Migration {
	record, now := s.VM.Status.Migration.DeepCopy(), metav1.NewTime(s.Now)
	record.Stage, record.Message, record.EndTime, record.Transferred = stage, message, &now, s.Call.Transferred
	return record
}

func (s Situation) writePlan(record *v1.Migration) Plan {
	return Plan{Record: record, Ordinal: s.VM.Status.PodOrdinal}
}

func podOf(pod *corev1.Pod) v1.MigrationPod {
	return v1.MigrationPod{Pod: pod.Name, PodUID: pod.UID, NodeName: pod.Spec.NodeName}
}

// podWaitText returns what a pod is waiting for.
func podWaitText(pod *corev1.Pod) string {
	if pod == nil {
		return "it was not created"
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return decide.Readable(c.Message)
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil && w.Message != "" {
			return decide.Readable(w.Reason + ": " + w.Message)
		}
	}
	return "its runner doesn't answer"
}
