package status

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnAnswerEndsBooting(t *testing.T) {
	t.Parallel()
	s := life(t, Entered{State: Booting}, Answered{}, Answered{})
	require.Equal(t, Booted, s.State)
	require.Equal(t, VMBooted, s.Reason)
	require.Equal(t, at(1), s.Since)
	for _, state := range []State{Starting, Terminating, Stopped} {
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
	s := life(t, append([]Update{Entered{State: Booting}, Answered{}}, append(said, WasReset{})...)...)
	require.Equal(t, Booting, s.State)
	require.Equal(t, VMReset, s.Reason)
	require.Equal(t, at(8), s.Since)
	require.Equal(t, at(0), *s.Started)
	require.Nil(t, s.Guest)
	require.Equal(t, "alice", s.WantedUser)
	require.Empty(t, s.LoggedInUser+s.LoginFailure)
	require.False(t, s.VmopAgent)
	s = life(t, append([]Update{Entered{State: Booted}, Entered{State: Terminating}}, append(said, WasReset{})...)...)
	require.Equal(t, Terminating, s.State, "it is being stopped all the same")
	require.Nil(t, s.Guest)
}
