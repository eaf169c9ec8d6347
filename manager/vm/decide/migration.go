package decide

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
)

// Reasons of the condition Migratable, and of the phase Migrating.
const (
	reasonMigratable    = "Migratable"
	ReasonNotMigratable = "NotMigratable"
	reasonOneNode       = "OneNode"
)

// checkMigratable reports whether the guest of a VM can move to another node, as far as the definition shows. The
// runners compare more when the guest migrates.
func checkMigratable(s *Snapshot) Verdict {
	if why := objects.Unmovable(s.VM, true); why != "" {
		return Verdict{metav1.ConditionFalse, ReasonNotMigratable, why}
	}
	if why := objects.OneNode(s.VM, objects.CopiesDisks(s.VM, nil)); why != "" {
		if objects.OneNode(s.VM, true) == "" {
			why += "; to migrate to another node, copy the disks with spec.migration: {copyDisks: true}"
		}
		return Verdict{
			metav1.ConditionFalse, reasonOneNode, "the guest can only migrate to another pod on its node: " + why,
		}
	}
	return Verdict{metav1.ConditionTrue, reasonMigratable, ""}
}

// MigrationEvent returns the event that a migration has reached a stage, or nil for an intermediate stage.
func MigrationEvent(m *v1.Migration) *Event {
	e := Event{Action: "Migrate", Initiator: ByUser, Key: string(m.OperationUID)}
	switch m.Stage {
	case v1.MigrationPreparing:
		e.Reason = "Migrating"
		e.Note = fmt.Sprintf("the guest is migrating from node %s to the pod %s (VirtualMachineOperation %s)", m.Source.NodeName,
			m.Target.Pod, m.Operation)
	case v1.MigrationCompleted:
		e.Reason, e.Note = "Migrated", fmt.Sprintf("the guest has migrated from node %s to node %s, to the pod %s",
			m.Source.NodeName, m.Target.NodeName, m.Target.Pod)
	case v1.MigrationFailed:
		e.Reason, e.Warning = "MigrationFailed", true
		e.Note = "the guest did not migrate from node " + m.Source.NodeName + ": " + m.Message
	default:
		return nil
	}
	return &e
}
