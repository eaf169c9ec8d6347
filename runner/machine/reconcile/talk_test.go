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

// talk is a dialogue between the machine's rules and a QEMU played by the test.
type talk struct {
	t       *testing.T
	machine *reconcile.Machine
	want    reconcile.Desired
	now     time.Time
	open    []reconcile.Request // unanswered commands
	silence map[string]bool     // unanswered servers
	asked   []string            // servers

	blocks, nodes []string // QEMU's nodes of attached disks
}

func newTalk(t *testing.T, start reconcile.Start, rules ...plan.Rule) *talk {
	return &talk{t: t, machine: reconcile.New(rules, start), now: time.Unix(1_700_000_000, 0)}
}

// line returns a command in the tests' form: the name and the arguments as JSON.
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

// step returns the next step. All servers except the ones in silence answer immediately.
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

// says requires that exactly these commands are sent now.
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

// silent requires that no command is sent now or later without a new event.
func (k *talk) silent() {
	k.t.Helper()
	k.waits(0)
}

// waits requires that no command is sent now, and that the next step comes after the time.
func (k *talk) waits(d time.Duration) {
	k.t.Helper()
	step := k.step()
	for _, r := range step.Requests {
		require.Fail(k.t, "an unexpected command is sent", line(r.Command))
	}
	if d == 0 {
		require.True(k.t, step.Wake.IsZero(), "wakes after %s", step.Wake.Sub(k.now))
		return
	}
	require.Equal(k.t, d, step.Wake.Sub(k.now))
}

// returns answers the open commands in order. "" stands for {}, and a text that begins with "error: " is an error.
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

// isDone answers the open commands with {}.
func (k *talk) isDone() {
	k.t.Helper()
	k.returns(make([]string, len(k.open))...)
}

// loses drops the open commands because the session has ended.
func (k *talk) loses() {
	for _, r := range k.open {
		k.machine.Answer(r, nil, errors.New("no reply"), k.now)
	}
	k.open = nil
}

// event sends an event from QEMU.
func (k *talk) event(name, data string) {
	k.machine.Observe(qmp.Event{Name: name, Data: json.RawMessage(data)}, k.now)
}

func (k *talk) passes(d time.Duration) { k.now = k.now.Add(d) }

// complains requires these problems, each as "path: message".
func (k *talk) complains(want ...string) {
	k.t.Helper()
	var problems []string
	for _, p := range k.machine.Facts().Problems {
		problems = append(problems, p.Path+": "+p.Message)
	}
	require.Equal(k.t, want, problems)
}

// slots returns query-hotpluggable-cpus' answer: the highest CPU first, the initial CPU last. The CPUs in between have
// the given ids, starting with the lowest CPU. "" stands for a free slot.
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
