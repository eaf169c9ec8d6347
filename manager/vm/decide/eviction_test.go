package decide

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
)

func TestEvictionOf(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	const must, may = v1.EvictionLiveMigrate, v1.EvictionLiveMigrateIfPossible
	const stuck = "spec.nodeName names it"
	failed := func(operation string, ago time.Duration) *v1.Migration {
		return &v1.Migration{
			Operation: operation, Stage: v1.MigrationFailed, Message: "no node",
			EndTime: &metav1.Time{Time: now.Add(-ago)}, Source: v1.MigrationPod{PodUID: "pod"},
		}
	}
	for name, row := range map[string]struct {
		strategy  v1.EvictionStrategy
		drained   bool
		unmovable bool
		migration *v1.Migration
		want      Eviction
	}{
		"by default it is shut down":     {"", true, false, nil, Eviction{}},
		"as is set":                      {v1.EvictionShutdown, true, false, nil, Eviction{}},
		"held":                           {must, false, false, nil, Eviction{Held: true}},
		"held if it can move":            {may, false, false, nil, Eviction{Held: true}},
		"not held if it can't":           {may, true, true, nil, Eviction{}},
		"held though it can't":           {must, false, true, nil, Eviction{Held: true}},
		"it holds a drain":               {must, true, true, nil, Eviction{Held: true, Why: stuck}},
		"it leaves":                      {must, true, false, nil, Eviction{Held: true, Move: true}},
		"it leaves, too":                 {may, true, false, nil, Eviction{Held: true, Move: true}},
		"a user's attempt doesn't count": {may, true, false, failed("mine", 0), Eviction{Held: true, Move: true}},
		"it is leaving": {
			must, true, false, &v1.Migration{Stage: v1.MigrationMoving}, Eviction{Held: true},
		},
		"it is shut down after a failure": {
			may, true, false, failed("drain-web", time.Minute), Eviction{Again: now.Add(9 * time.Minute)},
		},
		"it leaves later": {
			must, true, false, failed("drain-web", 20*time.Second),
			Eviction{Held: true, Why: "no node", Again: now.Add(40 * time.Second)},
		},
		"it tries again":      {must, true, false, failed("drain-web", time.Minute), Eviction{Held: true, Move: true}},
		"the next drain does": {may, true, false, failed("drain-web", time.Hour), Eviction{Held: true, Move: true}},
	} {
		vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
		vm.Spec.EvictionStrategy, vm.Status.Phase, vm.Status.Migration = row.strategy, v1.PhaseRunning, row.migration
		if row.unmovable {
			vm.Spec.NodeName = "n1"
		}
		s := &Snapshot{VM: vm, Now: now, Drained: row.drained, Pod: &corev1.Pod{}}
		s.Pod.UID, s.Pod.Name = "pod", "web-0"
		require.Equal(t, row.want, EvictionOf(s), name)
	}
}

// Each pod, and each new attempt after a failure, gets exactly one Evict operation.
func TestLeave(t *testing.T) {
	t.Parallel()
	s := &Snapshot{VM: &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, Pod: &corev1.Pod{}}
	s.Pod.UID = "a7634501-453c-4027"
	first := Leave(s)
	require.Equal(t, "drain-web-a7634501-0", first.Name)
	require.Equal(t, v1.OperationEvict, first.Spec.Type)
	s.VM.Status.Migration = &v1.Migration{
		Operation: first.Name, Stage: v1.MigrationFailed, EndTime: &metav1.Time{Time: time.Unix(0x6a0b, 0)},
		Source: v1.MigrationPod{PodUID: s.Pod.UID},
	}
	require.Equal(t, "drain-web-a7634501-6a0b", Leave(s).Name)
}

// The decision about a VM's two pods fits each stage of a migration.
func TestPodsOfAMigration(t *testing.T) {
	t.Parallel()
	pod := func(uid types.UID) *corev1.Pod {
		p := &corev1.Pod{}
		p.UID, p.Name = uid, "web-0"
		p.Annotations = map[string]string{objects.AnnotationReceives: "op"}
		return p
	}
	s := Situation{Snapshot: &Snapshot{VM: &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "web"}}}}
	s.VM.Spec.VM.State = v1.Running
	m := &v1.Migration{Stage: v1.MigrationMoving, Target: v1.MigrationPod{PodUID: "second"}}
	s.VM.Status.Migration = m
	s.Other = pod("second")
	require.Equal(t, Decision{Replicas: 1}, Decide(s), "the guest may be in the second pod")
	s.Pod = pod("third") // replaces the guest's pod
	require.Equal(t, Decision{Replicas: 1}, Decide(s), "that is decided when the migration has ended")
	m.Stage = v1.MigrationFailed
	require.NotEmpty(t, Decide(s).Replace)
	s.Pod.DeletionTimestamp = &metav1.Time{Time: noon}
	require.Empty(t, Decide(s).Replace)
	s.Pod = pod("third")
	s.VM.Status.Runner = &v1.RunnerStatus{PodUID: "third"}
	require.Empty(t, Decide(s).Replace, "it has got its guest")
	s.VM.Status.Runner, m.Stage, s.Pod = nil, v1.MigrationCompleted, pod("second")
	require.Empty(t, Decide(s).Replace, "it has, and hasn't reported yet")

	s.Pod, s.Other = nil, pod("first")
	require.Equal(t, Decision{}, Decide(s), "no pod is made as long as the old one is there")
	p := PhaseOf(s)
	require.Equal(t, reasonWaitingForOldPod, p.Reason)
	require.Equal(t, "pod web-0, the source or target of a migration, is being removed", p.Message)
	s.Other = nil
	require.Equal(t, Decision{Replicas: 1}, Decide(s))
}
