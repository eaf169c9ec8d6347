package viewers

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClientsWithoutANameAreCounted(t *testing.T) {
	t.Parallel()
	var a List
	for range 3 {
		a.Connected("")
	}
	a.LoggedIn("")
	a.LoggedIn("")
	require.Len(t, a.Shown(), 2)
	a.Disconnected("") // the client that has not logged in
	require.Len(t, a.Shown(), 2)
	a.Disconnected("")
	a.Disconnected("")
	a.Disconnected("") // a client that was never seen
	require.Empty(t, a.Shown())
	require.Empty(t, a.clients)
}

func TestAClientThatIsKnownStaysWhereItIs(t *testing.T) {
	t.Parallel()
	var a List
	a.LoggedIn("b")
	a.LoggedIn("a")
	a.LoggedIn("a")
	came, left := a.Changes()
	require.Equal(t, []string{"b", "a"}, came)
	require.Empty(t, left)
	a.Replace([]string{"", "a", "c", "", "b"})
	came, left = a.Changes()
	require.Equal(t, []string{"", "", "c"}, came)
	require.Empty(t, left)
	require.Equal(t, []string{"b", "a", "", "", "c"}, a.Shown())
	a.Replace([]string{"c"})
	_, left = a.Changes()
	require.Equal(t, []string{"b", "a", "", ""}, left)
}

// A connected client that has not logged in is not shown, even if QEMU's answer contains it. A client counts as a
// viewer if its connection was not seen.
func TestTheUndecidedAreNotShown(t *testing.T) {
	t.Parallel()
	var a List
	a.Connected("")
	a.Connected("a")
	a.Connected("b")
	a.LoggedIn("b")
	a.Replace([]string{"", "", "a", "b", "c"})
	require.Equal(t, []string{"", "b", "c"}, a.Shown())
	a.LoggedIn("a")
	a.LoggedIn("")
	require.Equal(t, []string{"", "", "a", "b", "c"}, a.Shown())
	for i := range 1000 {
		a.Connected(fmt.Sprint(i))
	}
	require.Len(t, a.clients, 4+maxUndecided)
	require.False(t, a.overflow)
}

// For any events the memory is bounded, and the reported changes add up to the shown list. In the end the list equals
// QEMU's answer.
func TestAFloodOfClients(t *testing.T) {
	t.Parallel()
	var a List
	listed := map[string]int{}
	check := func() {
		came, left := a.Changes()
		for _, name := range left {
			listed[name]--
			require.GreaterOrEqual(t, listed[name], 0)
		}
		for _, name := range came {
			listed[name]++
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		name := ""
		if n := random.IntN(1000); n > 300 {
			name = fmt.Sprint("10.0.0.1:", n)
		}
		switch random.IntN(4) {
		case 0:
			a.Connected(name)
		case 1, 2:
			a.LoggedIn(name)
		case 3:
			a.Disconnected(name)
		}
		check()
		require.LessOrEqual(t, len(a.clients), maxClients)
		require.LessOrEqual(t, len(a.Shown()), maxShown)
	}
	require.True(t, a.overflow, "more came than are known")
	a.Replace([]string{"x", "y"})
	check()
	require.False(t, a.overflow)
	for name, n := range listed {
		require.Equal(t, n, strings.Count("x y", name)*len(name), name)
	}
}
