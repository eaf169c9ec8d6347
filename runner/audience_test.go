package runner

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClientsWithoutANameAreCounted(t *testing.T) {
	t.Parallel()
	var a audience
	for range 3 {
		a.connected("")
	}
	a.initialized("")
	a.initialized("")
	require.Len(t, a.shown(), 2)
	a.gone("") // that which has not logged in
	require.Len(t, a.shown(), 2)
	a.gone("")
	a.gone("")
	a.gone("") // one that was never seen
	require.Empty(t, a.shown())
	require.Empty(t, a.clients)
}

func TestAClientThatIsKnownStaysWhereItIs(t *testing.T) {
	t.Parallel()
	var a audience
	a.initialized("b")
	a.initialized("a")
	a.initialized("a")
	came, went := a.news()
	require.Equal(t, []string{"b", "a"}, came)
	require.Empty(t, went)
	a.replace([]string{"", "a", "c", "", "b"})
	came, went = a.news()
	require.Equal(t, []string{"", "", "c"}, came)
	require.Empty(t, went)
	require.Equal(t, []string{"b", "a", "", "", "c"}, a.shown())
	a.replace([]string{"c"})
	_, went = a.news()
	require.Equal(t, []string{"b", "a", "", ""}, went)
}

// Whoever has connected and not logged in is not taken for a viewer, whoever is
// asked; but of one that was not seen coming nothing else can be said.
func TestTheUndecidedAreNotShown(t *testing.T) {
	t.Parallel()
	var a audience
	a.connected("")
	a.connected("a")
	a.connected("b")
	a.initialized("b")
	a.replace([]string{"", "", "a", "b", "c"})
	require.Equal(t, []string{"", "b", "c"}, a.shown())
	a.initialized("a")
	a.initialized("")
	require.Equal(t, []string{"", "", "a", "b", "c"}, a.shown())
	for i := range 1000 {
		a.connected(fmt.Sprint(i))
	}
	require.Len(t, a.clients, 4+maxUndecided)
	require.False(t, a.cut)
}

// Whatever comes, the memory is bounded, and what is told adds up to what is
// shown. The answer to a question is the truth in the end.
func TestAFloodOfClients(t *testing.T) {
	t.Parallel()
	var a audience
	listed := map[string]int{}
	hear := func() {
		came, went := a.news()
		for _, name := range went {
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
			a.connected(name)
		case 1, 2:
			a.initialized(name)
		case 3:
			a.gone(name)
		}
		hear()
		require.LessOrEqual(t, len(a.clients), maxClients)
		require.LessOrEqual(t, len(a.shown()), maxShown)
	}
	require.True(t, a.cut, "more came than are known")
	a.replace([]string{"x", "y"})
	hear()
	require.False(t, a.cut)
	for name, n := range listed {
		require.Equal(t, n, strings.Count("x y", name)*len(name), name)
	}
}

func TestATrickle(t *testing.T) {
	t.Parallel()
	tr := trickle{burst: 2, every: time.Minute}
	at := func(minutes float64) (int, bool) {
		return tr.lets(time.Unix(0, 0).Add(time.Duration(minutes * float64(time.Minute))))
	}
	var log []string
	for _, minute := range []float64{0, 0, 0, 0.5, 1, 1.5, 1.5, 10, 10, 10} {
		withheld, ok := at(minute)
		log = append(log, fmt.Sprint(minute, " ", ok, " ", withheld))
	}
	require.Equal(t, []string{
		"0 true 0", "0 true 0", "0 false 0", "0.5 false 0", "1 true 2", "1.5 false 0", "1.5 false 0",
		"10 true 2", "10 true 0", "10 false 0",
	}, log)
}
