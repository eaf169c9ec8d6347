package machine

import (
	"fmt"
	"testing"
	"time"
)

// While a machine's guest is being moved, the machine stays unchanged: requests of users are refused, and a new
// configuration waits until the guest stays. Only Continue resumes the machine.
func TestAMachineIsHeld(t *testing.T) {
	t.Parallel()
	k := newTalk(t, withBalloon)
	k.state.Hold("it is being moved")
	for i, ask := range []func(Request, time.Time){
		k.state.Pause, k.state.Resume, k.state.Reset,
		func(to Request, now time.Time) { k.state.Freeze(to, time.Second, now) },
	} {
		ask(Request(10+i), k.now)
		k.does(fmt.Sprintf("answer %d: it is being moved", 10+i))
	}
	wish := k.state.wanted.wish
	wish.Desired.RAM = 64 * mib
	k.state.Configured(Reading{Wish: wish})
	k.does()

	k.state.Continue(20, k.now)
	k.does("cont")
	k.returns("cont", "error: there is no lock")
	k.does("answer 20: there is no lock") // still held
	k.state.Continue(21, k.now)
	k.does("cont")
	k.returns("cont", "{}")
	k.does("answer 21", "query-status", `balloon {"value":67108864}`)
}
