package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/adopt/record"
	"vmop/runner/control"
	"vmop/runner/machine"
	"vmop/runner/status"
	"vmop/test/guest"
	"vmop/test/invariants"
	"vmop/test/tier"
	"vmop/test/wait"
	"vmop/vmstatus"
)

// agentPort is a shell expression for the device of the guest agent's port.
const agentPort = "$(grep -l guest_agent /sys/class/virtio-ports/*/name | " +
	"sed 's,/sys/class/virtio-ports\\(.*\\)/name,/dev\\1,')"

// withDisks returns the lines of a vm section for the tiny guest with its agent and with disks.
func withDisks(t *testing.T, disks ...string) []string {
	t.Helper()
	image := guest.Tiny(t).With(t, "/usr/sbin/qemu-ga")
	guest.TakePlace(t)
	lines := []string{
		"accelerator: tcg", "firmware: bios", "network: []", "maximumRam: 256 MiB", "powerdownTimeout: 600",
		"kernel: {image: " + image.Kernel + ", initrd: " + image.Initrd +
			", commandLine: " + guest.CommandLine + "}", "drives:",
	}
	for _, name := range disks {
		lines = append(lines, "- {file: PATH/"+name+"}")
	}
	return lines
}

// becomes waits until a status of the VM is as wanted.
func becomes(t *testing.T, dir string, is func(status.Status) bool) {
	t.Helper()
	wait.Until(t, func() bool { return is(known(t, dir)) })
}

func thawed(s status.Status) bool { return s.Frozen == nil }

// A frozen guest is always thawed, whether its runner, its agent or the guest itself fails.
func TestAGuestNeverStaysFrozen(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	dir := folder(t, "standard", withDisks(t, "disk")...)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "disk"), make([]byte, 16<<20), 0o600))
	first, s := booting(t, dir)
	s.does("mkdir -p /disk /var/run /sbin && mke2fs /dev/vda >/dev/null && mount -t ext4 /dev/vda /disk; " +
		`printf '#!/bin/sh\npoweroff -f\n' >/sbin/shutdown; chmod +x /sbin/shutdown`)
	s.does("/usr/sbin/qemu-ga -d -m virtio-serial -t /tmp -f /tmp/ga.pid -p " + agentPort)
	becomes(t, dir, func(s status.Status) bool { return s.State == vmstatus.StateBooted })
	freeze := func(limit time.Duration) status.FreezeAnswer {
		t.Helper()
		client := dial(t, dir)
		a, err := client.Freeze(t.Context(), limit)
		require.NoError(t, err)
		return a
	}

	require.Equal(t, 1, freeze(control.MaxFreezeTime).FileSystems)
	require.Equal(t, status.FSFrozen, known(t, dir).Frozen.State)
	s.typeLine("sh (echo x >/disk/file; echo WRITTEN >/dev/console) &")
	s.await(`(?m)^rc=0`)
	first.kill()
	var left machine.Progress
	require.NoError(t, record.ReadProgress(filepath.Join(dir, "run"), &left))
	require.NotNil(t, left.Frozen)
	second := start(t, dir, nil)
	second.await(`thawing the guest's file systems, which an earlier runner has frozen`)
	second.await(`the guest's file systems are thawed`)
	s = console(t, dir)
	becomes(t, dir, thawed)
	s.does("cat /disk/file; while ! rm /disk/file; do usleep 50000; done")

	require.True(t, freeze(time.Second).Frozen)
	second.await(`frozen for as long as was requested`)
	becomes(t, dir, thawed)
	s.does("echo x >/disk/file")

	s.does("kill -STOP $(cat /tmp/ga.pid)")
	a := freeze(time.Second)
	require.False(t, a.Frozen)
	require.Contains(t, a.Message, "not frozen: crash-consistent, because ")
	s.does("kill -CONT $(cat /tmp/ga.pid)")
	becomes(t, dir, thawed)
	s.does("echo y >/disk/file")

	config := filepath.Join(dir, "config.yaml")
	said, err := exec.CommandContext(t.Context(), "vmrunner", "freeze", "-c", config, "--time", "60s").CombinedOutput()
	require.NoError(t, err, string(said))
	require.Contains(t, string(said), "1 file systems are frozen for at most 1m0s; thaw them: vmrunner thaw --config "+
		config+"\n")
	second.signal(syscall.SIGTERM)
	second.await(`the guest's file systems are thawed`)
	second.await(`stopping.*guest agent`)
	require.Zero(t, second.exit())
	invariants.NothingLeft(t, dir)
}
