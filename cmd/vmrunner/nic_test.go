package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

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

func newChangingCards(t *testing.T) *changingCards {
	t.Helper()
	runtime.LockOSThread() // never unlocked: the thread and its namespace end with the goroutine
	require.NoError(t, unix.Unshare(unix.CLONE_NEWNET), "make a network namespace (this test needs root)")
	for _, words := range []string{
		"link set lo up", "link add br7 type bridge", "address add 192.168.7.1/24 dev br7", "link set br7 up",
	} {
		ip(t, "%s", words)
	}
	c := &changingCards{t: t, dir: folder(t, "standard", tiny(t, "")...)}
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
	c := newChangingCards(t)
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

// The same happens many times.
func TestANetworkCardComesAndGoesOften(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	c := newChangingCards(t)
	for range 50 {
		c.comes()
		c.goes()
	}
}
