package decide

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
)

// A start ends when the guest of a new pod is running; contradictory times are left out.
func TestStartOf(t *testing.T) {
	t.Parallel()
	at := func(second int) metav1.Time { return metav1.NewTime(time.Unix(int64(1000+second), 0)) }
	taken := func(second int) func(*Situation) {
		return func(s *Situation) { s.Pod.Status.StartTime = new(at(second)) }
	}
	guest := func(status metav1.ConditionStatus, second int) func(*Situation) {
		return func(s *Situation) {
			s.VM.Status.Conditions = []metav1.Condition{
				{Type: v1.ConditionRunning, Status: status, LastTransitionTime: at(second)},
			}
		}
	}
	want := Start{VM: "web", Node: "n1", Pod: "1", Made: at(0).Time, Ran: at(7).Time, Guest: at(9).Time}
	takenAt := func(second int) *Start {
		start := want
		start.Taken = at(second).Time
		return &start
	}
	atOnce := want
	atOnce.Guest = atOnce.Ran
	for what, row := range map[string]struct {
		change func(*Situation)
		now    v1.Phase
		want   *Start // nil: no start has ended
	}{
		"it runs":                      {taken(3), v1.PhaseRunning, takenAt(3)},
		"taken in the same second":     {taken(0), v1.PhaseRunning, takenAt(0)},
		"taken when it ran":            {taken(7), v1.PhaseRunning, takenAt(7)},
		"taken by a clock that's late": {taken(-1), v1.PhaseRunning, &want},
		"taken after it ran":           {taken(8), v1.PhaseRunning, &want},
		"not known when taken":         {func(*Situation) {}, v1.PhaseRunning, &want},
		"the guest ran at once":        {guest(metav1.ConditionTrue, 7), v1.PhaseRunning, &atOnce},
		"it doesn't run":               {taken(3), v1.PhaseStarting, nil},
		"it has run before":            {was(v1.PhaseRunning, ""), v1.PhaseRunning, nil},
		"the guest has moved":          {was(v1.PhaseMigrating, ""), v1.PhaseRunning, nil},
		"started again":                {guest(metav1.ConditionTrue, 6), v1.PhaseRunning, nil},
		"the runner says it doesn't":   {guest(metav1.ConditionFalse, 9), v1.PhaseRunning, nil},
		"the runner says nothing":      {func(s *Situation) { s.VM.Status.Conditions = nil }, v1.PhaseRunning, nil},
		"there is no pod":              {noPod, v1.PhaseRunning, nil},
		"the container doesn't run":    {with(terminatedWith(1, "")), v1.PhaseRunning, nil},
		"a container before the pod":   {with(runningSince(at(-1).Time)), v1.PhaseRunning, nil},
	} {
		runs, answers := with(runningSince(at(7).Time)), guest(metav1.ConditionTrue, 9)
		s := is(was(v1.PhaseStarting, ""), runs, answers, func(s *Situation) {
			s.Pod.CreationTimestamp = at(0)
		}, row.change)
		got, ended := StartOf(s.Snapshot, Phase{Phase: row.now})
		require.Equal(t, row.want != nil, ended, what)
		if ended {
			require.Equal(t, *row.want, got, what)
		}
	}
	require.Equal(t, 7*time.Second, want.Preparation())
	require.Equal(t, 2*time.Second, want.Machine())
}
