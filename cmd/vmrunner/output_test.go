package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/runner/status"
	"vmop/vmstatus"
)

func TestAge(t *testing.T) {
	t.Parallel()
	for text, d := range map[string]time.Duration{
		"0s": -time.Second, "119s": 119 * time.Second, "2m0s": 2 * time.Minute, "9m59s": 599 * time.Second,
		"10m": 10 * time.Minute, "179m": 179 * time.Minute, "3h": 3 * time.Hour, "47h": 47 * time.Hour,
		"2d": 49 * time.Hour,
	} {
		require.Equal(t, text, shortDuration(d))
	}
}

func TestQMPCommandLine(t *testing.T) {
	t.Parallel()
	type words = []string
	for _, row := range []struct {
		args, name words
		command    string
	}{
		{words{"query-status"}, words{}, "query-status null"},
		{words{"web", "query-status"}, words{"web"}, "query-status null"},
		{words{"eject", `{"id": "cd0"}`}, words{}, `eject {"id":"cd0"}`},
		{words{"web", "eject", ` {"id": "cd0"}`}, words{"web"}, `eject {"id":"cd0"}`},
	} {
		name, c, err := qmpCommand(row.args)
		require.NoError(t, err)
		require.Equal(t, row.name, name)
		arguments, err := json.Marshal(c.Arguments)
		require.NoError(t, err)
		require.Equal(t, row.command, c.Execute+" "+string(arguments))
	}
	for _, args := range []words{{`{}`}, {"a", "b", "c"}, {"a", "b", "c", "{}"}, {"a", "{} {}"}, {"a", "{1}"}} {
		_, c, err := qmpCommand(args)
		require.Error(t, err, "%v: %v", args, qmp.Command(c))
	}
}

func TestNews(t *testing.T) {
	t.Parallel()
	at := time.Now()
	fold := func(s status.Status, updates ...status.Update) *status.Status {
		s, err := status.Fold(s, at, updates...)
		require.NoError(t, err)
		return &s
	}
	first := fold(status.Status{}, status.Entered{State: vmstatus.StateBooted}, status.RunState("running"),
		status.CPUs(2),
		status.RAM(1<<30), status.Read{Generation: 1}, status.Applied(1))
	require.Equal(t, []string{
		"Booted (VmBooted) ", "QEMU's run state: running", "Ready: True (VmBooted) ", "ConfigApplied: True (Applied) ",
		"CPUs: 2", "RAM: 1024 MiB",
	}, statusNews(nil, first))
	second := fold(*first, status.RunState("io-error"), status.ConsoleOpened{Kind: status.VNC, Client: "10.0.0.1"},
		status.Problems{{Message: "disk sda is full"}}, status.RAM(1<<29), status.VmopAgent(true),
		status.LoggedIn("alice"))
	require.Equal(t, []string{
		"QEMU's run state: io-error", "Ready: False (IOError) a disk has failed; the VM waits",
		"VmopAgentConnected: True (VmopAgentStarted) ",
		"ConsoleConnected: True (Connected) vnc 10.0.0.1", "RAM: 512 MiB", "user: alice", "consoles: 1",
		"problem:  disk sda is full",
	}, statusNews(first, second))
	third := fold(*second, status.GuestOS{Info: &status.OSInfo{ID: "debian"}}, status.WantedUser("root"),
		status.LoginFailure("504 no"),
		status.Interfaces{{Name: "eth0", Addresses: []string{"10.0.2.15/24", "fe80::1/64"}}, {Name: "eth1"}})
	require.Equal(t, []string{"guest: debian", "addresses: 10.0.2.15/24 fe80::1/64", "root is not logged in: 504 no"},
		statusNews(second, third))
	require.Equal(t, []string{"guest: its agent has disconnected"},
		statusNews(third, fold(*third, status.GuestOS{}, status.Interfaces(nil))))
	require.Empty(t, statusNews(second, second))
	require.Empty(t, statusNews(second, nil))
	require.Equal(t, []string{"Stopped (VmStopped) forced"},
		statusNews(second, fold(*second, status.Ended{Message: "forced"})))
}

// The status shows the logged-in user, and the requested user if it differs.
func TestTheUserOfAStatus(t *testing.T) {
	t.Parallel()
	for want, updates := range map[string][]status.Update{
		"":      nil,
		"alice": {status.WantedUser("alice"), status.VmopAgent(true), status.LoggedIn("alice")},
		"alice is requested: VmopAgentDisconnected": {status.WantedUser("alice")},
		"alice is requested: waiting for alice":     {status.WantedUser("alice"), status.VmopAgent(true)},
		"bob; root is requested: 504 root is not logged in": {
			status.WantedUser("root"), status.VmopAgent(true),
			status.LoggedIn("bob"), status.LoginFailure("504 root is not logged in"),
		},
		"bob; no user is requested": {status.VmopAgent(true), status.LoggedIn("bob")},
	} {
		s, err := status.Fold(status.Status{}, time.Now(),
			append([]status.Update{status.Entered{State: vmstatus.StateBooted}}, updates...)...)
		require.NoError(t, err)
		require.Equal(t, want, loggedInUser(&s))
	}
}
