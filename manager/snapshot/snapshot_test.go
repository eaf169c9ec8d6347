package snapshot_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/snapshot"
)

type class = snapshot.Class

func TestClassForADriver(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		all           []class
		asked         string
		want, message string
	}{
		"none":            {nil, "", "", "there is no VolumeSnapshotClass for the driver d of the disk"},
		"another's":       {[]class{{"a", "x", true}}, "", "", "there is no VolumeSnapshotClass for the driver d"},
		"one":             {[]class{{"a", "x", true}, {"b", "d", false}}, "", "b", ""},
		"the default":     {[]class{{"a", "d", false}, {"b", "d", true}}, "", "b", ""},
		"two defaults":    {[]class{{"b", "d", true}, {"a", "d", true}}, "", "", "VolumeSnapshotClasses (a, b)"},
		"no default":      {[]class{{"b", "d", false}, {"a", "d", false}}, "", "", "name one in spec."},
		"asked for":       {[]class{{"a", "d", false}, {"b", "d", true}}, "a", "a", ""},
		"asked, missing":  {[]class{{"a", "d", true}}, "c", "", "there is no VolumeSnapshotClass c (spec."},
		"asked, of other": {[]class{{"a", "d", true}, {"c", "x", false}}, "c", "", "is of the driver x"},
	} {
		got, reason, message := snapshot.ChooseClass(row.all, row.asked, "d", "spec.class")
		require.Equal(t, row.want, got, name)
		require.Equal(t, row.want == "", reason != "", name)
		require.Contains(t, message, row.message, name)
	}
}

// of returns the situation of a snapshot of a disk with a volume.
func of(change func(*snapshot.Situation)) snapshot.Situation {
	d := &v1.VirtualDisk{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	d.Status.Phase, d.Status.Target = v1.DiskReady, v1.DiskTarget{PersistentVolumeClaimName: "vd-data", UID: "c"}
	s := snapshot.Situation{
		Snapshot: &v1.VirtualDiskSnapshot{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: "1"}}, Disk: d,
		Now: time.Unix(1<<30, 0),
	}
	s.Snapshot.Spec.VirtualDiskName = "data"
	change(&s)
	return s
}

func TestNextStepAndPhase(t *testing.T) {
	t.Parallel()
	ours := func() *snapshot.Volume { return &snapshot.Volume{UID: "v", Owner: "1"} }
	made := &snapshot.Outcome{Consistent: true}
	torn := &snapshot.Outcome{Message: "why"}
	for name, row := range map[string]struct {
		change     func(*snapshot.Situation)
		step       snapshot.Step
		phase      v1.SnapshotPhase
		reason     string
		consistent string
	}{
		"new": {func(*snapshot.Situation) {}, snapshot.Capture, v1.SnapshotInProgress, snapshot.ReasonCapturing, ""},
		"without disk": {
			func(s *snapshot.Situation) { s.Disk = nil },
			snapshot.Nothing, v1.SnapshotPending, snapshot.ReasonDiskMissing, "",
		},
		"without volume": {
			func(s *snapshot.Situation) { s.Disk.Status.Phase = v1.DiskWaiting },
			snapshot.Nothing, v1.SnapshotPending, snapshot.ReasonDiskNotReady, "",
		},
		"capturing": {
			func(s *snapshot.Situation) { s.Capturing = true },
			snapshot.Nothing, v1.SnapshotInProgress, snapshot.ReasonCapturing, "",
		},
		"capturing, with volume": {
			func(s *snapshot.Situation) {
				s.Capturing, s.Volume, s.Snapshot.Spec.RequiredConsistency = true, ours(), true
			},
			snapshot.Nothing, v1.SnapshotInProgress, snapshot.ReasonCapturing, "",
		},
		"made, not seen": {
			func(s *snapshot.Situation) { s.Outcome = made },
			snapshot.Nothing, v1.SnapshotInProgress, snapshot.ReasonStoring, "",
		},
		"made": {
			func(s *snapshot.Situation) { s.Outcome, s.Volume = made, ours() },
			snapshot.Nothing, v1.SnapshotInProgress, snapshot.ReasonStoring, "true",
		},
		"ready": {
			func(s *snapshot.Situation) { s.Outcome, s.Volume = made, ours(); s.Volume.Ready = true },
			snapshot.Nothing, v1.SnapshotReady, "", "true",
		},
		"ready, known before": {
			func(s *snapshot.Situation) {
				s.Volume, s.Snapshot.Status.Consistent, s.Snapshot.Status.VolumeSnapshotUID = ours(), new(true), "v"
				s.Volume.Ready = true
			}, snapshot.Nothing, v1.SnapshotReady, "", "true",
		},
		"of a manager that has ended": {
			func(s *snapshot.Situation) { s.Volume = ours(); s.Volume.Ready = true },
			snapshot.Nothing, v1.SnapshotReady, "", "false",
		},
		"of such a one, required": {
			func(s *snapshot.Situation) { s.Volume = ours(); s.Snapshot.Spec.RequiredConsistency = true },
			snapshot.Remove, v1.SnapshotFailed, snapshot.ReasonNotConsistent, "",
		},
		"torn, required": {
			func(s *snapshot.Situation) {
				s.Volume, s.Outcome, s.Snapshot.Spec.RequiredConsistency = ours(), torn, true
			}, snapshot.Remove, v1.SnapshotFailed, snapshot.ReasonNotConsistent, "",
		},
		"torn": {
			func(s *snapshot.Situation) { s.Volume, s.Outcome = ours(), torn },
			snapshot.Nothing, v1.SnapshotInProgress, snapshot.ReasonStoring, "false",
		},
		"refused": {
			func(s *snapshot.Situation) { s.Outcome = &snapshot.Outcome{Reason: "Quota", Message: "m"} },
			snapshot.Nothing, v1.SnapshotPending, "Quota", "",
		},
		"refused for good": {
			func(s *snapshot.Situation) { s.Outcome = &snapshot.Outcome{Reason: snapshot.ReasonNotConsistent} },
			snapshot.Nothing, v1.SnapshotFailed, snapshot.ReasonNotConsistent, "",
		},
		"failed before": {
			func(s *snapshot.Situation) {
				s.Snapshot.Status.Phase, s.Snapshot.Status.Reason = v1.SnapshotFailed, snapshot.ReasonNotConsistent
			}, snapshot.Nothing, v1.SnapshotFailed, snapshot.ReasonNotConsistent, "",
		},
		"lost?": {
			func(s *snapshot.Situation) { s.Snapshot.Status.VolumeSnapshotUID = "v" },
			snapshot.Confirm, v1.SnapshotInProgress, snapshot.ReasonStoring, "",
		},
		"lost": {
			func(s *snapshot.Situation) { s.Snapshot.Status.VolumeSnapshotUID, s.Gone = "v", true },
			snapshot.Nothing, v1.SnapshotFailed, snapshot.ReasonLost, "",
		},
		"replaced": {
			func(s *snapshot.Situation) {
				s.Snapshot.Status.VolumeSnapshotUID, s.Volume = "v", ours()
				s.Volume.UID = "w"
			}, snapshot.Nothing, v1.SnapshotFailed, snapshot.ReasonLost, "",
		},
		"of an earlier one": {
			func(s *snapshot.Situation) { s.Volume = ours(); s.Volume.Owner = "0" },
			snapshot.Nothing, v1.SnapshotPending, snapshot.ReasonNameTaken, "",
		},
		"deleted": {
			func(s *snapshot.Situation) { s.Snapshot.DeletionTimestamp = &metav1.Time{Time: s.Now} },
			snapshot.Nothing, v1.SnapshotTerminating, snapshot.ReasonDeletion, "",
		},
	} {
		s := of(row.change)
		require.Equal(t, row.step, snapshot.Next(s), name)
		is := snapshot.StatusOf(s)
		require.Equal(t, row.phase, is.Phase, name)
		require.Equal(t, row.reason, is.Reason, name)
		got := ""
		if is.Consistent != nil {
			got = map[bool]string{true: "true", false: "false"}[*is.Consistent]
		}
		require.Equal(t, row.consistent, got, name)
	}
}

// A disk that a VM attached and released between two reads may have been written to.
func TestUndisturbed(t *testing.T) {
	t.Parallel()
	free := of(func(*snapshot.Situation) {}).Disk
	free.Status.Conditions = []metav1.Condition{{Type: v1.DiskConditionInUse, LastTransitionTime: metav1.Unix(1, 0)}}
	require.True(t, snapshot.Undisturbed(free, free.DeepCopy()))
	taken := free.DeepCopy()
	taken.Status.AttachedToVirtualMachines = []v1.AttachedVirtualMachine{{Name: "web"}}
	require.False(t, snapshot.Undisturbed(free, taken))
	require.False(t, snapshot.Undisturbed(taken, free))
	left := free.DeepCopy()
	left.Status.Conditions[0].LastTransitionTime = metav1.Unix(2, 0)
	require.False(t, snapshot.Undisturbed(free, left))
}

// A failed snapshot of a VM keeps its phase and message until it is deleted.
func TestAFailedSnapshotOfAVM(t *testing.T) {
	t.Parallel()
	s := &v1.VirtualMachineSnapshot{}
	s.Status.Phase, s.Status.Reason, s.Status.Message = v1.SnapshotFailed, "Because", "so it is"
	of := snapshot.MachineSituation{Snapshot: s, Capturing: true}
	is := snapshot.StatusOfMachine(of)
	require.Equal(t, "Failed Because so it is", string(is.Phase)+" "+is.Reason+" "+is.Message)
	s.DeletionTimestamp = &metav1.Time{}
	is = snapshot.StatusOfMachine(of)
	require.Equal(t, "Terminating "+snapshot.ReasonDeletion, string(is.Phase)+" "+is.Reason)
	s.DeletionTimestamp, s.Status.Phase = nil, v1.SnapshotPending
	require.Equal(t, v1.SnapshotInProgress, snapshot.StatusOfMachine(of).Phase)
}
