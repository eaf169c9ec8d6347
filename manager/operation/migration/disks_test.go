package migration

import (
	"testing"

	"github.com/stretchr/testify/require"

	v1 "vmop/api/v1"
)

// copying returns a situation after the source was asked to move a guest with a copied disk.
func copying(t *testing.T) Situation {
	t.Helper()
	s := preparing(t)
	s.VM.Status.Migration.Disks = []v1.MigrationDisk{{
		Name: "data", From: v1.DiskTarget{PersistentVolumeClaimName: "vd-data", UID: "u"}, Claim: "vd-data.1",
	}}
	s.takes(t, Decide(s))
	require.Equal(t, v1.MigrationMoving, s.VM.Status.Migration.Stage)
	return s
}

// Disks switch to their copies before the move is recorded. A disk that uses its copy proves that the guest has moved.
func TestDisksGetTheirCopies(t *testing.T) {
	t.Parallel()
	s := copying(t)
	s.VM.Status.Runner = &v1.RunnerStatus{PodUID: "uid-web-1", State: "Running"}
	require.True(t, Decide(s).Switch)

	s = copying(t)
	s.Switched = true // by a manager that was killed
	for what, call := range map[string]Call{
		"nothing is known": {}, "the source is gone": {Result: Unknown}, "it is mistaken": {Result: Stayed},
	} {
		s.Call, s.Other = call, nil
		p := Decide(s)
		require.Equal(t, v1.MigrationCompleted, p.Record.Stage, what)
		require.Equal(t, int32(1), p.Ordinal, what)
		require.True(t, p.Switch, what)
	}
	plain := moving(t)
	plain.VM.Status.Runner = s.VM.Status.Runner
	plain.VM.Status.Runner.PodUID = "uid-web-1"
	require.False(t, Decide(plain).Switch)
}

// Copies are discarded only if the guest has definitely stayed.
func TestCopiesAreKept(t *testing.T) {
	t.Parallel()
	for what, of := range map[string]struct {
		change func(*Situation)
		kept   bool
	}{
		"the source says that the guest has stayed": {func(s *Situation) {
			s.Call = Call{Result: Stayed, Message: "no"}
		}, false},
		"the target has given up": {func(s *Situation) {
			s.Call.Result, s.VM.Status.Arriving.Stage = Unknown, "Failed"
		}, false},
		"another runner has given up": {func(s *Situation) {
			s.Call.Result, s.VM.Status.Arriving.Stage = Unknown, "Failed"
			s.Other = nil
		}, true},
		"the target is gone without a word": {func(s *Situation) { s.Call.Result, s.Other = Unknown, nil }, true},
	} {
		s := copying(t)
		of.change(&s)
		record := Decide(s).Record
		require.NotNil(t, record, what)
		require.Equal(t, v1.MigrationFailed, record.Stage, what)
		require.Equal(t, of.kept, record.CopiesKept, what)
		if of.kept {
			require.Contains(t, record.Message, "so the copies of its disks stay", what)
		}
	}
}

// A migration fails immediately if its copies can't be created. A new migration waits until the leftovers of the last
// migration are removed.
func TestNoCopies(t *testing.T) {
	t.Parallel()
	s := situation()
	s.NoCopies = "the VM doesn't have it"
	record := Decide(s).Record
	require.Equal(t, []any{v1.MigrationFailed, s.NoCopies}, []any{record.Stage, record.Message})

	s = preparing(t)
	s.VM.Status.Migration.Disks = []v1.MigrationDisk{{Name: "data"}}
	s.NoCopies = "exceeded quota"
	record = Decide(s).Record
	require.Equal(t, []any{v1.MigrationFailed, s.NoCopies}, []any{record.Stage, record.Message})
	require.False(t, record.CopiesKept)

	s = situation()
	s.Left = true
	require.Nil(t, Decide(s).Record)
	s.Left = false
	s.Disks = []v1.MigrationDisk{{Name: "data", Claim: "vd-data.1"}}
	require.Equal(t, s.Disks, Decide(s).Record.Disks)
}
