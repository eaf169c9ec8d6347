package decide

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
)

// A VM needs a restart for the pod changes that the manager finds and for the changes that the runner reports. Reported
// changes of the pod are ignored.
func TestWhatAwaitsARestart(t *testing.T) {
	t.Parallel()
	const disks, node = "vm.disks", "nodeName"
	changes := func(paths ...string) (all []v1.RestartAwaitingChange) {
		for _, path := range paths {
			all = append(all, v1.RestartAwaitingChange{Path: path})
		}
		return all
	}
	for what, tt := range map[string]struct {
		found, reported []v1.RestartAwaitingChange
		want            string // in the message; "": no restart needed
	}{
		"nothing":               {nil, nil, ""},
		"the manager's":         {changes(node), nil, node},
		"the runner's":          {nil, changes(disks), disks},
		"both":                  {changes(node), changes(disks), node + ", " + disks},
		"the same":              {changes(disks), changes(disks), disks},
		"the manager's, before": {nil, changes(node), ""},
	} {
		vm := machine("web")
		vm.Status.RestartAwaitingChanges = tt.reported
		verdict := RestartOf(Situation{Snapshot: &Snapshot{VM: vm}}, Findings{Changes: tt.found}).Condition
		if tt.want == "" {
			require.Equal(t, metav1.ConditionFalse, verdict.Status, what)
			continue
		}
		require.Equal(t, metav1.ConditionTrue, verdict.Status, what)
		require.Contains(t, verdict.Message, tt.want, what)
		require.NotContains(t, verdict.Message, disks+", "+disks, what)
	}
}
