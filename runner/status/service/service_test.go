package service

import (
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/status"
	"vmop/runner/status/notify"
	"vmop/vmstatus"
)

// The manager is notified of the relevant changes with the right status line.
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
		{
			status.Pending{Changes: []status.Change{{Path: "vm.firmware"}}},
			[]string{"STATUS=Booted; changes need a restart"},
		},
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
		require.Equal(t, test.want, messagesFor(before, s), "%#v", test.update)
	}
}

// During a long end, the manager is notified of extensions, even while other news is more frequent.
func TestALongEndIsExtended(t *testing.T) { // not parallel: the environment contains the manager's address
	path := filepath.Join(t.TempDir(), "n")
	t.Setenv("NOTIFY_SOCKET", path)
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	manager, err := notify.FromEnvironment()
	require.NoError(t, err)
	heard := make(chan int)
	go func() { // the manager counts the extensions until the last message
		n, message := 0, make([]byte, 4096)
		for {
			length, err := socket.Read(message)
			if err != nil || string(message[:length]) == "STATUS=over" {
				heard <- n
				return
			}
			n += strings.Count(string(message[:length]), "EXTEND_TIMEOUT_USEC=60000000")
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		tracker := status.NewTracker(time.Now, status.Entered{State: vmstatus.StateStarting},
			status.Entered{State: vmstatus.StateBooting})
		wait := New(manager, slog.New(slog.DiscardHandler)).Inform(t.Context(), tracker)
		require.NoError(t, tracker.Update(status.Entered{State: vmstatus.StateTerminating}))
		for i := range 30 {
			time.Sleep(9 * time.Second)
			require.NoError(t, tracker.Update(status.Pending{Changes: []status.Change{{Path: fmt.Sprint(i)}}}))
		}
		require.NoError(t, tracker.Update(status.Entered{State: vmstatus.StateStopped}))
		wait()
	})
	require.NoError(t, manager.Send(notify.Status("over")))
	require.Equal(t, 1+270/20+1, <-heard, "at the begin, every 20 seconds, and before what is cleaned up")
}
