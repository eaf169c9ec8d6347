package runner_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/runner/status"
	"vmop/test/guest"
	"vmop/test/tier"
	"vmop/vmstatus"
)

// hostileAgent is a loop of hostile guest agents: each reads a line and answers as the case specifies. Each opens the
// port after the previous agent has closed it.
const hostileAgent = `(while ! { echo AGENT listens >/dev/console; while :; do while read -r line; do case $line in ` +
	`*guest-sync-delimited*) SYNC;; *guest-get-osinfo*) OSINFO;; *interfaces*) NETWORK;; ` +
	`esac; done; usleep 100000; done; } <>PORT >&0; do usleep 100000; done) 2>/dev/null & echo $! >/tmp/agent.pid`

// inSync answers guest-sync-delimited correctly.
const inSync = `id=$(echo "$line" | sed 's/.*arguments[^0-9]*\([0-9]*\).*/\1/'); printf '\377{"return": %s}\n' "$id"`

// startHostileAgent replaces the agent in the guest.
func (c *console) startHostileAgent(sync, osinfo, network string) {
	c.t.Helper()
	c.Do("[ ! -e /tmp/agent.pid ] || { kill $(cat /tmp/agent.pid); killall head tr 2>/dev/null; true; }")
	c.Type("sh " + strings.NewReplacer("SYNC", sync, "OSINFO", osinfo, "NETWORK", network, "PORT",
		portOf("guest_agent")).Replace(hostileAgent))
	c.Await(`^AGENT listens`)
}

// Row 14: with a hostile guest agent, the VM counts as booted only after a valid answer, and all shown texts are safe.
func TestFault14GuestAgentsThatLie(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	leave := guest.TakePlace(t)
	v := newVM(t, "standard", append(kernel(t, ""), "network: []", "powerdownTimeout: 120")...)
	c := attach(v)
	v.runs()
	c.Await(`READY`)
	leave()
	quiet := `{"return": []}`
	unanswered := func(because string) {
		t.Helper()
		v.log.await(t, v.ended, "the guest agent does not answer", "err", because)
		s := v.status()
		require.NotEqual(t, vmstatus.StateBooted, s.State)
		require.Nil(t, s.Guest)
	}
	c.startHostileAgent(":", ":", ":")
	unanswered("no reply: context deadline exceeded")
	c.startHostileAgent(inSync, `head -c 100000 /dev/zero | tr '\0' '['; echo`, ":")
	unanswered("nested more than 32 deep")
	c.startHostileAgent(inSync, `head -c 3000000 /dev/zero | tr '\0' x; echo`, ":")
	unanswered("the reply has more than 1048576 bytes")
	c.startHostileAgent(inSync, `printf '\0\n'`, ":")
	unanswered("the reply is not JSON")
	c.startHostileAgent(inSync, `printf '{"return": {}, "id": 7}\n{"return": 7}\n'`, ":")
	unanswered("read the reply")

	// The agent sends 100 MB, a late answer, the answer to another question, and finally its own, full of control
	// characters.
	c.startHostileAgent("head -c 100000000 /dev/zero; printf '\\377{\"return\": 1}\\n'; "+inSync,
		`printf '{"return": {"pretty-name": "false"}, "id": 7}\n{"return": {"pretty-name": "\\u001b[31m\033]0;\376'; head -c 1000 /dev/zero | tr '\0' y; printf '"}}\n'`,
		`printf '{"return": [{"name": "eth\\n0", "hardware-address": "\\u001b", "ip-addresses": [{"ip-address": "10.0.2.300", "prefix": 24}, {"ip-address": "192.0.2.1", "prefix": 24}]}]}\n'`)
	unanswered("the reply is not JSON") // a control character in a text
	c.startHostileAgent(inSync, `printf '{"return": {"pretty-name": "\\u001b[31m\376'; head -c 1000 /dev/zero | tr '\0' y; printf '"}}\n'`,
		`printf '{"return": [{"name": "eth\\n0", "hardware-address": "\\u001b", "ip-addresses": [{"ip-address": "10.0.2.300", "prefix": 24}, {"ip-address": "192.0.2.1", "prefix": 24}]}]}\n'`)
	s := v.becomes("a network", func(s status.Status) bool { return s.Guest != nil && s.Guest.Interfaces != nil })
	require.Equal(t, vmstatus.StateBooted, s.State)
	require.Equal(t, "\ufffd[31m\ufffd"+strings.Repeat("y", 249)+"…", s.Guest.OS.PrettyName)
	require.Equal(t, []status.Interface{{Name: "eth 0", Addresses: []string{"192.0.2.1/24"}}}, s.Guest.Interfaces)
	require.Negative(t, strings.IndexFunc(v.log.find("booted")[0]["system"].(string), unicode.IsControl))

	// The agent is asked to shut down, and doesn't: the runner presses the power button.
	c.startHostileAgent(":", "echo '"+quiet+"'", ":")
	outcome, err := v.stop()
	require.NoError(t, err)
	require.Equal(t, vmstatus.CauseAsked, outcome.Cause)
	v.logged("the guest agent does not answer")
	v.logged("stopping", "method", "ACPI power button")
	v.nothingLeft()
}

// Row 15: a log-in agent that sends without end is read slowly. It can't log in a user who was not requested, and the
// rest of the VM is not affected.
func TestFault15LoginAgentThatNeverStops(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	leave := guest.TakePlace(t)
	v := newVM(t, "standard")
	v.configure("standard", nil, append(kernel(t, ""), "network: []", "display: {loggedInUser: alice}")...)
	c := attach(v)
	v.runs()
	c.Await(`READY`)
	c.installLoginAgent()
	leave()
	floods := 0
	for _, flood := range []string{"201 root", "201 root\n220 hi\n", "502 \\033[2J\n220 hi\n150\n", "x"} {
		// The port is open when the command has ended.
		c.Do("exec 3>" + portOf("vmop_agent") + "; yes \"$(printf '" + strings.ReplaceAll(flood, "\n", `\n`) +
			"')\" >&3 2>/dev/null & echo $! >/tmp/flood.pid; exec 3>&-")
		for range 100 {
			reply, err := v.client().QMP(t.Context(), qmp.Command{Execute: "query-status"})
			require.NoError(t, err)
			require.Contains(t, string(reply), "running")
			s := v.status()
			require.Contains(t, []string{"", "alice"}, s.LoggedInUser)
			require.NotContains(t, s.LoginFailure, "\x1b")
		}
		if flood == "201 root" || flood == "x" {
			s := v.holds(vmstatus.ConditionUserLoggedIn, "False VmopAgentDisconnected")
			require.False(t, s.VmopAgent, "no agent has announced itself")
		} else {
			v.holds(vmstatus.ConditionVmopAgent, "True VmopAgentStarted")
		}
		c.kills("/tmp/flood.pid", "TERM")
		floods++
		eventually(t, floods, func() int {
			return len(v.log.find("QMP event", "data", `{"open": false, "id": "channel1"}`))
		})
		v.holds(vmstatus.ConditionVmopAgent, "False VmopAgentDisconnected")
	}
	c.Do("touch /tmp/go")
	c.startLoginAgent()
	v.holds(vmstatus.ConditionUserLoggedIn, "True LoggedIn")
	info := 0
	for _, r := range v.log.find("log-in agent") {
		if r["level"] != "DEBUG" {
			info++
		}
	}
	require.LessOrEqual(t, info, 60, "the log is not flooded")
	v.ends()
}
