package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/status"
	"vmop/test/wait"
)

// A network card that was plugged in moves with the guest. Its packets reach the network at the target, and the guest
// there releases it.
func TestAPluggedNetworkCardMoves(t *testing.T) {
	t.Parallel()
	const first, plugged = "{type: user}", "{type: user, mac: '" + comingMAC + "', net: 10.3.0.0/24}"
	section := tiny(t, "")
	for i, line := range section {
		section[i] = strings.Replace(line, "network: []", "network: ["+first+"]", 1)
	}
	j := newJourney(t, "standard", section)
	j.sending = booted(t, j.fromDir, "--log-level", "debug")
	from := console(t, j.fromDir)
	from.await(`TINY \S+ READY`)
	networks := func(dir, before, after string) {
		file := filepath.Join(dir, "config.yaml")
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Contains(t, string(text), "network: ["+before+"]")
		changed := strings.Replace(string(text), "network: ["+before+"]", "network: ["+after+"]", 1)
		require.NoError(t, os.WriteFile(file, []byte(changed), 0o600))
	}
	networks(j.fromDir, first, first+", "+plugged)
	networks(j.toDir, first, first+", "+plugged)
	const pings = "until ping -c 1 -W 1 10.3.0.2 >/dev/null; do sleep 0.2; done"
	from.does(findCard + "echo $n >/tmp/name; ip address add 10.3.0.15/24 dev $n && ip link set $n up && " + pings)
	require.Equal(t, status.NICPlugged, known(t, j.fromDir).NICs[0].State)

	j.expects()
	j.moves()
	to := console(t, j.toDir)
	to.does(findCard + "[ $n = $(cat /tmp/name) ]; " + pings)
	require.Equal(t, []status.NIC{{MAC: comingMAC, State: status.NICPlugged}}, known(t, j.toDir).NICs)
	require.Empty(t, known(t, j.toDir).RestartAwaitingChanges)
	networks(j.toDir, first+", "+plugged, first)
	to.does("while grep -q " + comingMAC + " /sys/class/net/*/address; do sleep 0.1; done")
	wait.Until(t, func() bool { return len(known(t, j.toDir).NICs) == 0 })
	j.receiving.stops(j.toDir)
}
