package machine

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/runner/machine/reconcile"
	"vmop/runner/status"
	"vmop/vmstatus"
	"vmop/vmtypes/plan"
)

// talk is a dialogue between a State and a world played by the test: QEMU, the guest, users and the clock.
type talk struct {
	t     *testing.T
	state *State
	now   time.Time
	open  []Send // unanswered
	seen  uint64 // the last command that a fuzz test has counted
	known status.Status
	log   []string
	saved Progress
	wake  time.Time
	other []string // all other actions
	ended *Outcome
	boot  time.Duration // since the host's boot
}

const (
	runs    = `{"status": "running"}`
	stopped = `{"status": "paused"}`
	ioError = `{"status": "io-error"}`
)

// newTalk returns an idle VM with a running guest.
func newTalk(t *testing.T, change ...func(*Config)) *talk {
	t.Helper()
	k := fresh(t, change...)
	k.state.Connected(k.now)
	k.state.Greeted("7.2.22")
	k.nextStep()
	k.isDone()
	k.nextStep()
	require.Contains(t, k.other, "settled")
	k.other = nil
	k.state.Release(1, Booting{Began: k.now}, k.now)
	k.does("cont")
	k.isDone()
	k.takesStock()
	return k
}

// fresh returns a VM with a starting QEMU.
func fresh(t *testing.T, change ...func(*Config)) *talk {
	t.Helper()
	cfg := Config{
		Plan: &plan.Plan{}, Start: &reconcile.Start{}, PID: 7, GuestAgent: "guestAgent",
		Agents: []string{"guestAgent", "vmopAgent", "other"},
	}
	cfg.Progress.Generation = 1
	cfg.Wish.Powerdown = time.Minute
	for _, c := range change {
		c(&cfg)
	}
	k := &talk{t: t, now: time.Unix(1_700_000_000, 0), state: New(cfg), boot: time.Hour}
	k.known, _ = status.Fold(k.known, k.now, status.Entered{State: vmstatus.StateStarting})
	return k
}

// found returns a VM left running by an earlier runner.
func found(t *testing.T, change ...func(*Config)) *talk {
	t.Helper()
	return fresh(t, append([]func(*Config){func(c *Config) { c.Start = nil }}, change...)...)
}

func withTPM(c *Config) {
	c.Plan.Helpers, c.Running = []plan.Process{{Name: "passt"}, {Name: "swtpm", Role: plan.RoleTPM, Ready: "/run/tpm"}},
		[]string{"passt", "swtpm"}
}

func withAgent(c *Config) {
	c.Plan.Sockets = []plan.Socket{{Role: "guestAgent", Path: "/run/agent", Port: "port0"}}
}

// takesStock answers the queries at the beginning of a connection.
func (k *talk) takesStock() {
	k.t.Helper()
	k.answersAll()
	k.passes(shortestDoubt)
	k.answersAll()
	k.other, k.log = nil, nil
}

// answersAll answers all open queries.
func (k *talk) answersAll() {
	k.t.Helper()
	answers := map[string]string{
		"query-status": runs, "query-vnc-servers": "[]", "query-chardev": "[]", "set-action": "{}",
		"query-balloon": `{"actual": 134217728}`,
	}
	for k.nextStep(); len(k.open) > 0; k.nextStep() {
		for len(k.open) > 0 {
			answer := answers[k.open[0].Command.Execute]
			if answer == "" {
				answer = "error: no"
			}
			k.returns(k.open[0].Command.Execute, answer)
		}
	}
}

// nextStep executes the current actions.
func (k *talk) nextStep() {
	k.t.Helper()
	step := k.state.Next(k.now)
	k.wake = step.Wake
	require.True(k.t, k.wake.IsZero() || k.wake.After(k.now), "no busy loop")
	for _, action := range step.Actions {
		switch a := action.(type) {
		case Send:
			k.open = append(k.open, a)
			k.other = append(k.other, line1(a.Command))
		case Publish:
			var err error
			k.known, err = status.Fold(k.known, k.now, a.Updates...)
			require.NoError(k.t, err)
		case Log:
			k.log = append(k.log, fmt.Sprintln(append([]any{a.Level, a.Message}, a.Attrs...)...))
		case Save:
			k.saved = a.Progress
		case End:
			k.ended = &a.Outcome
		case Answer:
			if a.Err != nil {
				k.other = append(k.other, fmt.Sprintf("answer %d: %v", a.To, a.Err))
			} else if a.To != 1 {
				k.other = append(k.other, fmt.Sprintf("answer %d", a.To))
			}
		case Settled:
			k.other = append(k.other, strings.TrimSuffix("settled: "+errorText(a.Err), ": "))
		case FreezeGuest:
			k.saved = a.Progress
			k.other = append(k.other, "FreezeGuest "+a.Timeout.String())
		case LogIn:
		default:
			name := strings.TrimPrefix(fmt.Sprintf("%T", a), "machine.")
			k.other = append(k.other, strings.TrimSuffix(name+" "+strings.Trim(fmt.Sprint(a), "{}"), " "))
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// line1 returns a command in the tests' form: the name and the arguments as JSON.
func line1(c qmp.Command) string {
	if c.Arguments == nil {
		return c.Execute
	}
	b, err := json.Marshal(c.Arguments)
	if err != nil {
		panic(err)
	}
	return c.Execute + " " + string(b)
}

// does requires that exactly these actions are executed now.
func (k *talk) does(want ...string) {
	k.t.Helper()
	k.nextStep()
	did := k.other
	k.other = nil
	require.Equal(k.t, want, did)
}

// waits requires that the State does not act now, and that Next is due after the time. Zero means that Next is due only
// after an event.
func (k *talk) waits(d time.Duration) {
	k.t.Helper()
	k.does()
	if d == 0 {
		require.True(k.t, k.wake.IsZero(), "wakes after %s", k.wake.Sub(k.now))
		return
	}
	require.Equal(k.t, d, k.wake.Sub(k.now))
}

// returns answers the oldest command of a name. A text that begins with "error: " is an error.
func (k *talk) returns(command, answer string) {
	k.t.Helper()
	for i, s := range k.open {
		if s.Command.Execute != command {
			continue
		}
		k.open = append(k.open[:i:i], k.open[i+1:]...)
		if desc, refused := strings.CutPrefix(answer, "error: "); refused {
			k.state.Reply(s.ID, nil, &qmp.Error{Class: qmp.GenericError, Desc: desc}, k.now)
		} else {
			k.state.Reply(s.ID, json.RawMessage(answer), nil, k.now)
		}
		return
	}
	require.FailNow(k.t, "not asked", command)
}

// isDone answers the open commands with {}.
func (k *talk) isDone() {
	k.t.Helper()
	for len(k.open) > 0 {
		k.returns(k.open[0].Command.Execute, "{}")
	}
}

// is answers a query of the run state.
func (k *talk) is(state string) {
	k.t.Helper()
	k.does("query-status")
	k.returns("query-status", state)
}

// event sends an event from QEMU.
func (k *talk) event(name, data string) {
	k.state.Observe(qmp.Event{Name: name, Data: json.RawMessage(data)}, k.now)
}

func (k *talk) passes(d time.Duration) { k.now, k.boot = k.now.Add(d), k.boot+d }

// loses ends the connection.
func (k *talk) loses() {
	k.open = nil
	k.state.Disconnected(qmp.ErrClosed, k.now)
}

func (k *talk) isStopped(cause string, atOnce bool) { k.state.Stop(cause, atOnce, k.boot, k.now) }

// ends requires that the VM has ended now.
func (k *talk) ends() Outcome {
	k.t.Helper()
	k.nextStep()
	require.NotNil(k.t, k.ended, "the VM has not ended")
	return *k.ended
}

// logged requires a line in the log and clears the log.
func (k *talk) logged(text string) {
	k.t.Helper()
	require.Contains(k.t, strings.Join(k.log, ""), text)
	k.log = nil
}

// faults returns the messages of the faults with a reason.
func (k *talk) faults(reason vmstatus.Reason) (messages []string) {
	for _, p := range k.known.Problems {
		if p.Reason == reason {
			messages = append(messages, p.Message)
		}
	}
	return messages
}
