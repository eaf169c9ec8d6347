package control_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/control"
	"vmop/test/wait"
)

// A client other than the manager may state its user. Others see the user marked as unverified, and it is never treated
// as a user of the manager.
func TestUnverifiedUsers(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.guest(t)
	as := func(user string) *control.Client {
		return control.NewClient(func(ctx context.Context) (net.Conn, error) {
			return control.Connect(ctx, s.path())
		}, user)
	}
	console, err := as("ann\x1b[31m").Console(t.Context(), control.Type)
	require.NoError(t, err)
	defer console.Close()
	for _, other := range []string{"ann\x1b[31m", "bob", ""} {
		_, err = as(other).Console(t.Context(), control.Type)
		require.EqualError(t, err, "the console is in use by ann�[31m (unverified)", "also for the same name")
	}
	wait.Until(t, func() bool { // the request is logged after its connection becomes a console
		return strings.Contains(s.log.String(), `client="ann�[31m (unverified)"`)
	})
	seen := s.tracker.Status().Consoles
	require.Len(t, seen, 1)
	require.Equal(t, "ann�[31m (unverified)", seen[0].Client)
	require.Empty(t, seen[0].User)

	long, err := as(strings.Repeat("ä", 300)).Console(t.Context(), control.Take)
	require.NoError(t, err)
	defer long.Close()
	require.Less(t, len(s.tracker.Status().Consoles[0].Client), 300)
}
