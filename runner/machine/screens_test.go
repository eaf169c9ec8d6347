package machine

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/vmstatus"
	"vmop/vmtypes/plan"
)

// viewers returns the viewers in the status.
func (k *talk) viewers() string {
	var list []string
	for _, c := range k.known.Consoles {
		list = append(list, c.Kind+" "+c.Client)
	}
	return strings.Join(list, ", ")
}

// clients answers the query for all VNC viewers of a QEMU without SPICE.
func (k *talk) clients(list string) {
	k.t.Helper()
	k.does("query-spice", "query-vnc-servers")
	k.returns("query-spice", "error: no such command")
	k.returns("query-vnc-servers", `[{"clients": [`+list+`]}, {"clients": []}]`)
}

// Queries make up for lost events, and a QEMU without SPICE causes no problem.
func TestLostEventsOfViewers(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.state.EventsLost()
	k.nextStep()
	k.returns("query-status", runs) // for the rules
	k.other = k.other[1:]
	k.clients(`{"host": "10.0.0.1", "service": "1"}, {"host": "10.0.0.2", "service": "2"}`)
	k.waits(shortestDoubt)
	require.Empty(t, k.viewers(), "an event may be on its way")
	k.passes(shortestDoubt)
	k.does()
	require.Equal(t, "vnc 10.0.0.1:1, vnc 10.0.0.2:2", k.viewers())
	k.event("VNC_DISCONNECTED", `{"client": {"host": "10.0.0.1", "service": "1"}}`)
	k.event("SPICE_INITIALIZED", `{"client": {"host": "::1", "port": "3", "channel-type": 1}}`)
	k.event("SPICE_INITIALIZED", `{"client": {"host": "::1", "port": "4", "channel-type": 2}}`)
	k.event("VNC_INITIALIZED", `{"client": "nonsense"}`)
	k.does()
	require.Equal(t, "vnc 10.0.0.2:2, spice [::1]:3", k.viewers())
	require.NotContains(t, strings.Join(k.log, ""), "WARN")
}

// While viewers come and leave, QEMU's answer may be outdated. The query is repeated less and less often.
func TestViewersThatDoNotRest(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.state.screens.queryAgain()
	var pauses []time.Duration
	for range 6 {
		k.clients("")
		k.event("VNC_CONNECTED", `{"client": {"host": "10.0.0.9", "service": "9"}}`)
		k.nextStep()
		pauses = append(pauses, k.wake.Sub(k.now)/time.Second)
		k.passes(k.wake.Sub(k.now))
	}
	require.Equal(t, []time.Duration{1, 2, 4, 8, 10, 10}, pauses)
	k.clients(`{"host": "10.0.0.3", "service": "3"}`)
	k.passes(longestDoubt)
	k.nextStep()
	require.Equal(t, "vnc 10.0.0.3:3", k.viewers())
}

// The ports of agents are queried once. Afterwards events report changes.
func TestPortsOfAgents(t *testing.T) {
	t.Parallel()
	agents := func(c *Config) {
		c.Plan.Sockets = []plan.Socket{
			{Role: "guestAgent", Path: "/run/a", Port: "port0"},
			{Role: "vmopAgent", Path: "/run/b", Port: "port1"},
			{Role: "other", Path: "/run/c"},
			{Role: "console", Path: "/run/d"},
		}
	}
	k := newTalk(t, agents)
	k.loses()
	k.passes(brokenTime)
	k.does("Dial")
	k.state.Connected(k.now)
	k.nextStep()
	require.Contains(t, k.other, "query-chardev")
	k.other = nil
	k.event("VSERPORT_CHANGE", `{"id": "port1", "open": true}`)
	k.does("SetPort vmopAgent true false")
	k.returns("query-chardev", `[{"filename": "unix:/run/a,server=on", "frontend-open": true},
		{"filename": "disconnected:unix:/run/b,server=on", "frontend-open": false}, {"filename": "pty:/dev/pts/1", "frontend-open": true}]`)
	k.does("SetPort guestAgent true true", "SetPort other false true")
	k.event("VSERPORT_CHANGE", `{"id": "port7", "open": true}`)
	k.event("VSERPORT_CHANGE", `[]`)
	k.does()
	k.event("RESET", "")
	k.nextStep()
	require.Equal(t, []string{
		"SetPort guestAgent false false", "SetPort vmopAgent false false",
		"SetPort other false false",
	}, k.other[:3])
	require.Equal(t, vmstatus.ReasonVMReset, k.known.Reason)
}
