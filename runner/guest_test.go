package runner_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/control"
	"vmop/runner/prepare"
	"vmop/test/guest"
	"vmop/test/wait"
)

// kernel returns the lines of a vm section that boot the tiny guest.
func kernel(t *testing.T, commandLine string) []string {
	t.Helper()
	return boots(guest.Tiny(t), commandLine)
}

// boots returns the lines of a vm section that boot a guest.
func boots(image guest.Image, commandLine string) []string {
	return []string{
		"accelerator: tcg",
		"firmware: bios",
		"maximumRam: 256 MiB",
		"kernel:",
		"  image: " + image.Kernel,
		"  initrd: " + image.Initrd,
		"  commandLine: " + guest.CommandLine + " " + commandLine,
	}
}

// obedient returns the lines of a vm section that boot guest.Obedient.
func obedient(t *testing.T, counts bool) []string {
	t.Helper()
	disk := filepath.Join(t.TempDir(), "disk.img")
	require.NoError(t, os.WriteFile(disk, guest.Obedient(counts), 0o600))
	return bootsDisk(disk)
}

// bootsDisk returns the lines of a vm section that boot a disk.
func bootsDisk(disk string) []string {
	return []string{
		"accelerator: tcg", "firmware: bios", "network: []", "maximumRam: 64 MiB", "powerdownTimeout: 120",
		"drives: [{file: " + disk + ", bootindex: 1}]",
	}
}

// console is the guest's serial console.
type console struct {
	t     *testing.T
	conn  net.Conn
	lines chan string
	said  []string // what was read from lines
}

func newConsole(v *vm) *console { return &console{t: v.t, lines: make(chan string, 8192)} }

// attach returns the console of a VM; it must be called before the VM starts.
func attach(v *vm) *console {
	c := newConsole(v)
	v.onPaused = func(ctx context.Context, vm *prepare.VM) error { return c.open(ctx, vm.RuntimeDir) }
	return c
}

// open opens the console of a VM that runs.
func (c *console) open(ctx context.Context, runtimeDir string) (err error) {
	if c.conn, err = openConsole(ctx, runtimeDir); err != nil {
		return err
	}
	c.t.Cleanup(func() { c.conn.Close() })
	go func() {
		defer close(c.lines)
		for scan := bufio.NewScanner(c.conn); scan.Scan(); {
			c.lines <- strings.TrimRight(scan.Text(), "\r")
		}
	}()
	return nil
}

// await returns the submatches of the next line that matches.
func (c *console) await(pattern string) []string {
	c.t.Helper()
	expected, late := regexp.MustCompile(pattern), wait.Over(c.t)
	for {
		select {
		case line, open := <-c.lines:
			require.True(c.t, open, "the console ended before %q came, with:\n%s", pattern, strings.Join(c.said, "\n"))
			c.said = append(c.said, line)
			if match := expected.FindStringSubmatch(line); match != nil {
				return match
			}
		case <-late:
			require.FailNow(c.t, "no line in time", "%q, only:\n%s", pattern, strings.Join(c.said, "\n"))
		}
	}
}

// type types a line.
func (c *console) typeLine(line string) {
	c.t.Helper()
	_, err := fmt.Fprintln(c.conn, line)
	require.NoError(c.t, err)
}

// text is everything that was awaited.
func (c *console) text() string { return strings.Join(c.said, "\n") }

// agent is a guest agent as a shell script: it answers guest-sync-delimited with
// the byte 0xFF and the id in the arguments, and does REACTION on guest-shutdown.
// Its port reads as ended while no client is connected to the other end.
const agent = `sh for p in /sys/class/virtio-ports/*; do case $(cat $p/name) in org.qemu.guest_agent.0) ` +
	`(echo AGENT listens >/dev/console; while :; do while read -r line; do case $line in ` +
	`*guest-sync-delimited*) id=$(echo "$line" | sed 's/.*arguments[^0-9]*\([0-9]*\).*/\1/'); printf '\377{"return": %s}\n' "$id";; ` +
	`*guest-shutdown*) echo AGENT was asked >/dev/console; REACTION;; ` +
	`esac; done; usleep 100000; done) <>/dev/${p##*/} >&0 2>/dev/null & ;; esac; done`

// startAgent starts an agent in the guest that reacts to guest-shutdown.
func (c *console) startAgent(reaction string) {
	c.t.Helper()
	c.typeLine(strings.ReplaceAll(agent, "REACTION", reaction))
	c.await(`^AGENT listens`)
}

// openConsole opens the serial console as its users do: the runner owns the
// socket.
func openConsole(ctx context.Context, runtimeDir string) (net.Conn, error) {
	client, err := control.Dial(ctx, filepath.Join(runtimeDir, control.SocketName))
	if err != nil {
		return nil, err
	}
	return client.Console(ctx, control.Type)
}
