package k8s_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "vmop/api/v1"
	"vmop/runner/status"
	"vmop/vmstatus"
)

// The target of a migration doesn't report about the VM until it has the guest. Late reports of the source are
// overwritten.
func TestATargetReportsForItselfUntilItHasTheGuest(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const source = `{"status": {"cpus": 3, "runner": {"podName": "web-1", "podUID": "of-the-source", "state": "Booted"}}}`
	p.patch("vm-runner", source)
	arriving := func(stage string) status.Moves {
		of := vmstatus.Progress{Stage: stage}
		return status.Moves{Migration: &status.Migration{Direction: status.Arriving, Progress: of}}
	}
	tracker, _, _ := p.follow(arriving("Waiting"), status.Controlled{Port: 7, Key: "key"}, status.CPUs(1))
	s := p.eventually("the target waits", func(s v1.VirtualMachineStatus) bool { return s.Arriving != nil })
	require.Equal(t, "Waiting", s.Arriving.Stage)
	require.Equal(t, &v1.RunnerControl{Port: 7, Key: "key"}, s.Arriving.Control)
	require.NotEmpty(t, s.Arriving.PodUID)
	pod := s.Arriving.PodUID
	tell(t, tracker, arriving("Holding"))
	s = p.eventually("the next stage", func(s v1.VirtualMachineStatus) bool { return s.Arriving.Stage == "Holding" })
	require.Equal(t, "Booted", s.Runner.State)
	require.EqualValues(t, 3, s.CPUs)

	tell(t, tracker, status.Moves{}, status.Entered{State: vmstatus.StateStarting},
		status.Entered{State: vmstatus.StateBooting})
	speaks := func(s v1.VirtualMachineStatus) bool { return s.Runner.PodUID == pod && s.Arriving == nil }
	s = p.eventually("the target speaks", speaks)
	require.Equal(t, "Booting", s.Runner.State)
	p.patch("vm-runner", source)
	p.eventually("it is reported again", func(s v1.VirtualMachineStatus) bool { return speaks(s) && s.CPUs == 1 })
}

// The source stops reporting when the guest is handed over, unless the guest stays.
func TestASourceIsSilentWhenTheGuestLeaves(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	tracker, r, _ := p.follow(status.Entered{State: vmstatus.StateBooting}, status.CPUs(1))
	leaving := func(stage string) status.Moves {
		of := vmstatus.Progress{Stage: stage}
		return status.Moves{Migration: &status.Migration{Direction: status.Leaving, Progress: of}}
	}
	tell(t, tracker, leaving("Copying"), status.CPUs(2))
	p.eventually("the guest is copied", func(s v1.VirtualMachineStatus) bool { return s.CPUs == 2 })
	tell(t, tracker, leaving("Switching"), status.CPUs(3))
	<-time.After(time.Second) // several times the delay that collects changes
	p.eventually("it is not reported", func(s v1.VirtualMachineStatus) bool { return s.CPUs == 2 })
	tell(t, tracker, status.Moves{})
	p.eventually("the guest stays", func(s v1.VirtualMachineStatus) bool { return s.CPUs == 3 })
	tell(t, tracker, leaving("Asking"), status.CPUs(4))
	tell(t, tracker, status.Moves{}, status.Ended{Cause: vmstatus.CauseMoved},
		status.Entered{State: vmstatus.StateStopped})
	r.Close(t.Context())
	p.eventually("the end is not reported", func(s v1.VirtualMachineStatus) bool {
		return s.CPUs == 3 && s.Runner.Outcome == nil
	})
}
