package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"vmop/qmp"
	"vmop/test/invariants"
	"vmop/test/tier"
	"vmop/test/wait"
)

// changingCards is a tiny guest in a network namespace of the test's goroutine. Its configuration gets more network
// cards.
type changingCards struct {
	t       *testing.T
	dir     string
	runner  *program
	console *serial
}

// The card that comes and goes.
const (
	comingMAC  = "02:00:00:00:00:02"
	comingCard = "{type: tap, bridge: br7, mac: '" + comingMAC + "', filter: true}"
)

// newChangingCards boots the guest with these networks in its configuration.
func newChangingCards(t *testing.T, networks string) *changingCards {
	t.Helper()
	runtime.LockOSThread() // never unlocked: the thread and its namespace end with the goroutine
	require.NoError(t, unix.Unshare(unix.CLONE_NEWNET), "make a network namespace (this test needs root)")
	for _, words := range []string{
		"link set lo up", "link add br7 type bridge", "address add 192.168.7.1/24 dev br7", "link set br7 up",
	} {
		ip(t, "%s", words)
	}
	c := &changingCards{t: t, dir: folder(t, "standard", tiny(t, "")...)}
	c.configure("", networks)
	c.runner = newProgram(t, c.dir, nil)
	c.runner.launch()
	c.runner.await(`booting`)
	c.console = console(t, c.dir)
	c.console.await(`TINY \S+ READY`)
	return c
}

// configure replaces the networks in the configuration.
func (c *changingCards) configure(before, after string) {
	c.t.Helper()
	file := filepath.Join(c.dir, "config.yaml")
	text, err := os.ReadFile(file)
	require.NoError(c.t, err)
	require.Contains(c.t, string(text), "network: ["+before+"]")
	changed := strings.Replace(string(text), "network: ["+before+"]", "network: ["+after+"]", 1)
	require.NoError(c.t, os.WriteFile(file, []byte(changed), 0o600))
}

// taps returns the number of taps in the namespace.
func (c *changingCards) taps() int {
	c.t.Helper()
	out, err := exec.CommandContext(c.t.Context(), "ip", "-oneline", "link", "show", "type", "tun").CombinedOutput()
	require.NoError(c.t, err, "%s", out)
	return strings.Count(string(out), "vmc")
}

// findCard is a shell command that waits for the card in the guest, and stores its name in n.
const findCard = `until n=$(grep -l ` + comingMAC + ` /sys/class/net/*/address | cut -d/ -f5) && [ -n "$n" ]; do sleep 0.1; done; `

// comes plugs the card in, and requires that its packets reach the host.
func (c *changingCards) comes() {
	c.t.Helper()
	c.configure("", comingCard)
	c.console.does(findCard + "ip address add 192.168.7.2/24 dev $n && ip link set $n up && " +
		"until ping -c 1 -W 1 192.168.7.1 >/dev/null; do sleep 0.2; done")
	require.Equal(c.t, 1, c.taps())
}

// goes removes the card from the configuration, and requires that nothing of it is left.
func (c *changingCards) goes() {
	c.t.Helper()
	c.configure(comingCard, "")
	c.console.does("while grep -q " + comingMAC + " /sys/class/net/*/address; do sleep 0.1; done")
	wait.Until(c.t, func() bool { return c.taps() == 0 && len(known(c.t, c.dir).NICs) == 0 })
	require.NotContains(c.t, c.ruleset(), "vmc")
}

// ruleset returns the rules of the namespace's firewall.
func (c *changingCards) ruleset() string {
	c.t.Helper()
	out, err := exec.CommandContext(c.t.Context(), "nft", "list", "ruleset").CombinedOutput()
	require.NoError(c.t, err, "%s", out)
	return string(out)
}

// A guest sees a card that is plugged in, and its packets reach the bridge. When the card is unplugged, its tap and its
// rules disappear. A runner that is killed meanwhile leaves both to the next runner.
func TestANetworkCardComesAndGoes(t *testing.T) {
	t.Parallel()
	c := newChangingCards(t, "")
	for range 3 {
		c.comes()
		c.goes()
	}
	c.comes()
	require.Contains(t, c.ruleset(), "vmc")
	c.console.does(findCard + "echo $n > /tmp/name; ip link set $n up; cat /sys/class/net/$n/carrier | grep -q 1")
	down := strings.Replace(comingCard, "filter", "link: down, filter", 1)
	c.configure(comingCard, down)
	c.console.does(findCard + "until grep -q 0 /sys/class/net/$n/carrier; do sleep 0.1; done")
	c.configure(down, comingCard)
	c.console.does(findCard + "until grep -q 1 /sys/class/net/$n/carrier; do sleep 0.1; done")

	c.runner.kill()
	require.Contains(t, c.ruleset(), "vmc", "QEMU holds the rules")
	c.runner = newProgram(t, c.dir, nil)
	c.runner.launch()
	c.runner.await(`INF adopted`)
	c.console = console(t, c.dir)
	c.console.does("until ping -c 1 -W 1 192.168.7.1 >/dev/null; do sleep 0.2; done")
	c.goes()
}

// Cards with a tap and with a user network come and go 50 times while the guest sends packets through both. Afterwards
// QEMU has the same devices, backends and open files as before, and no tap, rule or port is left.
func TestNetworkCardsComeAndGoOften(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	const first, userMAC = "{type: user}", "02:00:00:00:00:03"
	const both = first + ", " + comingCard + ", {type: user, mac: '" + userMAC + "', net: 10.3.0.0/24}"
	c := newChangingCards(t, first)
	uses := func(mac, own, peer string) {
		c.console.does(strings.ReplaceAll(findCard, comingMAC, mac) + "ip address add " + own + "/24 dev $n && " +
			"ip link set $n up && until ping -c 1 -W 1 " + peer + " >/dev/null; do sleep 0.2; done; " +
			"(while ping -c 1 -W 1 " + peer + "; do :; done) >/dev/null 2>&1 &")
	}
	c.console.does("ip route del default") // otherwise the first network gets what is sent when the cards are gone
	machine, files, began := c.machine(), "", time.Now()
	const rounds = 50
	for i := range rounds {
		c.configure(first, both)
		uses(comingMAC, "192.168.7.2", "192.168.7.1")
		uses(userMAC, "10.3.0.15", "10.3.0.2")
		require.Equal(t, 1, c.taps())
		c.configure(both, first)
		c.console.does("while grep -q -e " + comingMAC + " -e " + userMAC + " /sys/class/net/*/address; " +
			"do sleep 0.1; done")
		wait.Until(t, func() bool { return c.taps() == 0 && len(known(t, c.dir).NICs) == 0 })
		if i == 0 {
			files = c.openFiles()
		}
	}
	t.Logf("%d rounds with two cards in %s", rounds, time.Since(began).Round(time.Second))
	require.Equal(t, machine, c.machine())
	require.Equal(t, files, c.openFiles())
	require.NotContains(t, c.ruleset(), "vmc")
	cards, err := os.ReadFile(filepath.Join(c.dir, "data", "cards.json"))
	require.NoError(t, err)
	require.Equal(t, "[]\n", string(cards))
	s := known(t, c.dir)
	require.Empty(t, s.Problems)
	require.Empty(t, s.RestartAwaitingChanges)
}

// machine returns QEMU's devices and network backends.
func (c *changingCards) machine() string {
	c.t.Helper()
	text := ""
	for _, command := range []qmp.Command{
		{Execute: "qom-list", Arguments: map[string]any{"path": "/machine/peripheral"}},
		{Execute: "human-monitor-command", Arguments: map[string]any{"command-line": "info network"}},
	} {
		client := dial(c.t, c.dir)
		answer, err := client.QMP(c.t.Context(), command)
		require.NoError(c.t, err)
		text += string(answer) + "\n"
	}
	return text
}

// openFiles returns the open files of QEMU and its runner by their kinds, once no request is being answered.
func (c *changingCards) openFiles() string {
	c.t.Helper()
	list := func() string {
		kinds := map[string]int{}
		for _, pid := range []int{invariants.OneQEMU(c.t, c.dir), c.runner.cmd.Process.Pid} {
			dir := fmt.Sprintf("/proc/%d/fd", pid)
			files, err := os.ReadDir(dir)
			require.NoError(c.t, err)
			for _, f := range files {
				target, _ := os.Readlink(filepath.Join(dir, f.Name())) // it may be closed meanwhile
				kind, _, _ := strings.Cut(target, ":[")                // socket:[123]
				kinds[fmt.Sprintf("%d %s", pid, kind)]++
			}
		}
		return fmt.Sprint(kinds)
	}
	before := list()
	for steady := 0; steady < 10; steady++ {
		time.Sleep(20 * time.Millisecond)
		if now := list(); now != before {
			before, steady = now, 0
		}
	}
	return before
}
