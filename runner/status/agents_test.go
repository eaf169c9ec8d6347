package status

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmstatus"
)

func TestAnAnswerEndsBooting(t *testing.T) {
	t.Parallel()
	s := life(t, Entered{State: vmstatus.StateBooting}, Answered{}, Answered{})
	require.Equal(t, vmstatus.StateBooted, s.State)
	require.Equal(t, vmstatus.ReasonVMBooted, s.Reason)
	require.Equal(t, at(1), s.Since)
	for _, state := range []vmstatus.State{vmstatus.StateStarting, vmstatus.StateTerminating, vmstatus.StateStopped} {
		require.Equal(t, state, life(t, Entered{State: state}, Answered{}).State)
	}
}

func TestAResetEndsWhatTheAgentsSaid(t *testing.T) {
	t.Parallel()
	said := []Update{
		GuestOS{&OSInfo{ID: "debian"}},
		Interfaces{{Name: "eth0"}},
		WantedUser("alice"), VmopAgent(true), LoggedIn("alice"), LoginFailure("x"),
	}
	s := life(t, append([]Update{Entered{State: vmstatus.StateBooting}, Answered{}}, append(said, WasReset{})...)...)
	require.Equal(t, vmstatus.StateBooting, s.State)
	require.Equal(t, vmstatus.ReasonVMReset, s.Reason)
	require.Equal(t, at(8), s.Since)
	require.Equal(t, at(0), *s.Started)
	require.Nil(t, s.Guest)
	require.Equal(t, "alice", s.WantedUser)
	require.Empty(t, s.LoggedInUser+s.LoginFailure)
	require.False(t, s.VmopAgent)
	s = life(t, append([]Update{Entered{State: vmstatus.StateBooted}, Entered{State: vmstatus.StateTerminating}},
		append(said, WasReset{})...)...)
	require.Equal(t, vmstatus.StateTerminating, s.State, "it is being stopped all the same")
	require.Nil(t, s.Guest)
}
