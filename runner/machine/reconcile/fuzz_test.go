package reconcile_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/runner/machine/reconcile"
	"vmop/vmtypes/plan"
)

// hostileRules returns rules of all kinds.
func hostileRules(seed byte) plan.Rules {
	rules := append(plan.Rules{plan.Affinity{CPUs: [][]int{{0}, nil, {1, 2}}}}, simRules...)
	if seed&1 == 1 {
		rules[2] = plan.Memory{Device: "memory0", Base: 64 * mib, Maximum: 256 * mib, Block: 2 * mib}
	}
	return rules
}

// FuzzReplies lets QEMU send anything. Each line is an event of the script:
//
//	NAME {…}   an event
//	={…}       the answer to the oldest command
//	!          the answer is lost
//	?          QEMU refuses
//	+          the time of the next wake comes
//
// The runner never panics, sends no more commands than a person could type, and produces only commands that can be
// encoded.
func FuzzReplies(f *testing.F) {
	f.Add(byte(0), "={\"running\": true}\n={\"qemu\": {\"major\": 8}}\n=[{\"type\": \"t\", \"props\": {\"core-id\": 1}}]\n+\n={}\n=[]\n+")
	f.Add(byte(1), "RESUME \n=-1\n=[{\"qdev\": \"cd0\", \"inserted\": null, \"locked\": true, \"tray_open\": false}]\nDEVICE_TRAY_MOVED {\"id\": \"cd0\", \"tray-open\": true}\n?\n+\n!\n+")
	f.Add(byte(0), "BALLOON_CHANGE {\"actual\": -9223372036854775808}\nBALLOON_CHANGE {\"actual\": 9223372036854775807}\n={\"actual\": 9223372036854775807}\n+\n+\n+")
	f.Add(byte(0), "=[{\"cpu-index\": 2, \"thread-id\": -1}, {\"cpu-index\": 2, \"thread-id\": 1}]\n+\n=[]\n=[]\n+\n=null\n+")
	f.Add(byte(1), "MEMORY_DEVICE_SIZE_CHANGE {\"id\": \"memory0\", \"size\": -1}\n=[{\"type\": \"virtio-mem\", \"data\": {\"id\": \"memory0\", \"size\": 1e30}}]\n+")
	f.Add(byte(0), "ACPI_DEVICE_OST {\"info\": {\"device\": \"cpu-1\", \"slot-type\": \"CPU\", \"source\": 3, \"status\": 0}}\nDEVICE_DELETED {\"path\": \"\"}\nDEVICE_UNPLUG_GUEST_ERROR {\"device\": \"cpu-1\"}\n=[{\"type\": 3}]\n=[null]\n=[{\"props\": {\"core-id\": -1}, \"qom-path\": \"/\"}]")
	f.Add(byte(3), "RESET {\"guest\": true}\nSHUTDOWN {\"guest\": 1}\nSTOP null\nRESUME []\n="+strings.Repeat("[", 5000)+"\n=")
	f.Fuzz(func(t *testing.T, seed byte, script string) {
		h := newHostile(t, seed)
		for line := range strings.SplitSeq(script, "\n") {
			h.happens(line)
			h.turn()
		}
	})
}

// hostile is a machine with a scripted QEMU.
type hostile struct {
	t       *testing.T
	machine *reconcile.Machine
	want    reconcile.Desired
	now     time.Time
	wake    time.Time
	open    []reconcile.Request
	said    []time.Time // times of the commands sent in the last second
}

func newHostile(t *testing.T, seed byte) *hostile {
	resets := int64(seed >> 4)
	return &hostile{
		t: t, now: time.Unix(1_700_000_000, 0),
		machine: reconcile.New(hostileRules(seed),
			reconcile.Start{Running: seed&2 == 2, Media: map[int]string{1: "/a.iso"}}),
		want: reconcile.Desired{
			CPUs: 1 + int(seed>>2&3), RAM: (64 + 64*int64(seed>>4&3)) * mib,
			Media: map[int]string{1: "/b.iso", 2: "/c.iso"},
			Sizes: map[int]int64{0: 5000}, Password: secret("canary", ""), ResetCounter: &resets,
		},
	}
}

func (h *hostile) happens(line string) {
	switch {
	case line == "":
		h.now = h.now.Add(time.Millisecond)
	case line == "+":
		if h.wake.After(h.now) {
			h.now = h.wake
		}
	case line[0] == '=':
		h.answer(json.RawMessage(line[1:]), nil)
	case line[0] == '!':
		h.answer(nil, errors.New("no reply within a second"))
	case line[0] == '?':
		h.answer(nil, &qmp.Error{Class: qmp.GenericError, Desc: line[1:]})
	default:
		name, data, _ := strings.Cut(line, " ")
		h.machine.Observe(qmp.Event{Name: name, Data: json.RawMessage(data)}, h.now)
	}
}

func (h *hostile) answer(reply json.RawMessage, err error) {
	if len(h.open) == 0 {
		h.machine.Doubt()
		return
	}
	r := h.open[0]
	h.open = h.open[1:]
	h.machine.Answer(r, reply, err, h.now)
}

func (h *hostile) turn() {
	step := h.machine.Next(h.want, h.now)
	require.True(h.t, step.Wake.IsZero() || step.Wake.After(h.now))
	h.wake = step.Wake
	for len(h.said) > 0 && h.now.Sub(h.said[0]) >= time.Second {
		h.said = h.said[1:]
	}
	for _, r := range step.Requests {
		h.said = append(h.said, h.now)
		h.open = append(h.open, r)
		_, err := json.Marshal(r.Command.Arguments)
		require.NoError(h.t, err)
	}
	for _, address := range step.Servers {
		h.machine.Answers(address, nil, h.now)
	}
	for _, p := range step.Placements {
		var err error
		if p.Thread < 1 {
			err = errors.New("there is no such thread")
		}
		h.machine.Placed(p, err, h.now)
	}
	require.LessOrEqual(h.t, len(h.said), mostCommands, "commands in a second")
	facts := h.machine.Facts()
	require.GreaterOrEqual(h.t, facts.CPUs, 0)
	require.GreaterOrEqual(h.t, facts.RAM, int64(0))
	for _, p := range facts.Problems {
		require.NotEmpty(h.t, p.Message)
		require.NotContains(h.t, p.Message, "canary")
	}
}
