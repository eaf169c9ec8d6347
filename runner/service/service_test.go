package service

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/status"
	"vmop/vmstatus"
)

// The words of the status line, and which change the manager hears of.
func TestNewsForTheServiceManager(t *testing.T) {
	t.Parallel()
	var s status.Status
	for _, test := range []struct {
		update status.Update
		want   []string
	}{
		{status.Described{Name: "web"}, []string{"STATUS=Initializing"}},
		{status.Entered{State: vmstatus.StateStarting}, []string{"STATUS=Starting"}},
		{status.Entered{State: vmstatus.StateBooting}, []string{"READY=1", "STATUS=Booting"}},
		{status.Unanswered("no agent answers"), []string{"STATUS=Running; no agent answers"}},
		{status.RAM(1 << 30), nil},
		{status.Entered{State: vmstatus.StateBooted}, []string{"STATUS=Booted"}},
		{
			status.GuestOS{Info: &status.OSInfo{PrettyName: "Debian\nREADY=1"}},
			[]string{"STATUS=Booted; Debian READY=1"},
		},
		{status.RunState("io-error"), []string{"STATUS=a disk has failed; the VM waits; Debian READY=1"}},
		{status.RunState("running"), []string{"STATUS=Booted; Debian READY=1"}},
		{status.GuestOS{}, []string{"STATUS=Booted"}},
		{status.Pending{{Path: "vm.firmware"}}, []string{"STATUS=Booted; changes await a restart"}},
		{status.Pending{}, []string{"STATUS=Booted"}},
		{status.Problems{{Message: "swtpm has ended"}}, []string{"STATUS=Booted; swtpm has ended"}},
		{
			status.Problems{{Path: "vm.currentCpus", Message: "QEMU has slots for 2"}},
			[]string{"STATUS=Booted; vm.currentCpus QEMU has slots for 2"},
		},
		{status.Problems{}, []string{"STATUS=Booted"}},
		{
			status.Read{Generation: 2, Error: "a.yaml:1:2: vm: nothing\n  1 | here"},
			[]string{"STATUS=Booted; a.yaml:1:2: vm: nothing"},
		},
		{
			status.Entered{State: vmstatus.StateBooting, Reason: vmstatus.ReasonVMReset},
			[]string{"STATUS=Booting; a.yaml:1:2: vm: nothing"},
		},
		{
			status.Entered{State: vmstatus.StateTerminating, Message: "signal terminated"},
			[]string{"STOPPING=1", "EXTEND_TIMEOUT_USEC=60000000", "STATUS=Terminating; signal terminated"},
		},
		{
			status.Ended{Cause: "asked", Message: "asked (guest-shutdown)"},
			[]string{"STOPPING=1", "EXTEND_TIMEOUT_USEC=60000000", "STATUS=Stopped; asked (guest-shutdown)"},
		},
	} {
		before := s
		var err error
		s, err = status.Fold(before, time.Now(), test.update)
		require.NoError(t, err)
		require.Equal(t, test.want, news(before, s), "%#v", test.update)
	}
}
