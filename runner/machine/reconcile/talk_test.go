package reconcile_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/runner/config"
	"vmop/runner/machine/reconcile"
	"vmop/vmtypes/plan"
)

// talk is a dialogue between the machine's rules and QEMU, played by the test.
type talk struct {
	t       *testing.T
	machine *reconcile.Machine
	want    reconcile.Desired
	now     time.Time
	open    []reconcile.Request // not answered
	silence map[string]bool     // of servers, which is not awaited
	asked   []string            // servers

	blocks, nodes []string // that QEMU has of disks that were attached
}

func newTalk(t *testing.T, start reconcile.Start, rules ...plan.Rule) *talk {
	return &talk{t: t, machine: reconcile.New(rules, start), now: time.Unix(1_700_000_000, 0)}
}

// line is a command as tests write it: the name, and the arguments as JSON.
func line(c qmp.Command) string {
	if c.Arguments == nil {
		return c.Execute
	}
	b, err := json.Marshal(c.Arguments)
	if err != nil {
		panic(err)
	}
	return c.Execute + " " + string(b)
}

// step is the next one. Servers answer at once, but for those in silence.
func (k *talk) step() reconcile.Step {
	step := k.machine.Next(k.want, k.now)
	if len(step.Servers) == 0 {
		return step
	}
	for _, address := range step.Servers {
		k.asked = append(k.asked, address)
		if !k.silence[address] {
			k.machine.Answers(address, nil, k.now)
		}
	}
	next := k.step()
	next.Requests = append(step.Requests, next.Requests...)
	return next
}

// says requires that these commands, and no others, are said now.
func (k *talk) says(want ...string) {
	k.t.Helper()
	step := k.step()
	var said []string
	for _, r := range step.Requests {
		said = append(said, line(r.Command))
	}
	require.Equal(k.t, want, said)
	k.open = append(k.open, step.Requests...)
}

// silent requires that nothing is said, and that nothing will be unless
// something happens.
func (k *talk) silent() {
	k.t.Helper()
	k.waits(0)
}

// waits requires that nothing is said now, but after the time.
func (k *talk) waits(d time.Duration) {
	k.t.Helper()
	step := k.step()
	for _, r := range step.Requests {
		require.Fail(k.t, "something is said", line(r.Command))
	}
	if d == 0 {
		require.True(k.t, step.Wake.IsZero(), "wakes after %s", step.Wake.Sub(k.now))
		return
	}
	require.Equal(k.t, d, step.Wake.Sub(k.now))
}

// returns answers the commands that are open in their order; "" is {}. A text
// that begins with "error: " is a refusal.
func (k *talk) returns(answers ...string) {
	k.t.Helper()
	require.Len(k.t, k.open, len(answers))
	for i, a := range answers {
		desc, refused := strings.CutPrefix(a, "error: ")
		switch {
		case refused:
			k.machine.Answer(k.open[i], nil, &qmp.Error{Class: qmp.GenericError, Desc: desc}, k.now)
		case a == "":
			k.machine.Answer(k.open[i], json.RawMessage("{}"), nil, k.now)
		default:
			k.machine.Answer(k.open[i], json.RawMessage(a), nil, k.now)
		}
	}
	k.open = nil
}

// isDone answers the commands that are open with {}.
func (k *talk) isDone() {
	k.t.Helper()
	k.returns(make([]string, len(k.open))...)
}

// loses answers nothing: the session has given up.
func (k *talk) loses() {
	for _, r := range k.open {
		k.machine.Answer(r, nil, errors.New("no reply"), k.now)
	}
	k.open = nil
}

// event is an event of QEMU.
func (k *talk) event(name, data string) {
	k.machine.Observe(qmp.Event{Name: name, Data: json.RawMessage(data)}, k.now)
}

func (k *talk) passes(d time.Duration) { k.now = k.now.Add(d) }

// complains requires these problems, each "path: message".
func (k *talk) complains(want ...string) {
	k.t.Helper()
	var problems []string
	for _, p := range k.machine.Facts().Problems {
		problems = append(problems, p.Path+": "+p.Message)
	}
	require.Equal(k.t, want, problems)
}

// slots is what query-hotpluggable-cpus answers: the highest first, the CPU of
// the start last. Those in between have the ids, from the lowest; "" is free.
func slots(total int, plugged ...string) string {
	list := make([]map[string]any, 0, total)
	for core := total - 1; core >= 0; core-- {
		slot := map[string]any{"type": "max-x86_64-cpu", "vcpus-count": 1, "props": map[string]int{"core-id": core}}
		switch {
		case core == 0:
			slot["qom-path"] = "/machine/unattached/device[0]"
		case core <= len(plugged) && plugged[core-1] != "":
			slot["qom-path"] = "/machine/peripheral/" + plugged[core-1]
		}
		list = append(list, slot)
	}
	b, err := json.Marshal(list)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func secret(text, expiry string) *reconcile.Password {
	return &reconcile.Password{Text: config.NewPassword(text), Expiry: expiry}
}
