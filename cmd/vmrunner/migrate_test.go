package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/control"
	"vmop/runner/migrate/handover"
	"vmop/test/guest"
	"vmop/test/invariants"
	"vmop/test/tier"
	"vmop/test/wait"
)

// journey is the migration of a VM from one folder to another.
type journey struct {
	t                  *testing.T
	fromDir, toDir     string
	sending, receiving *program
	receiveArgs        []string
}

// invitation returns the path of the target's invitation.
func (j *journey) invitation() string { return filepath.Join(j.toDir, "invitation") }

// receive starts the target's runner.
func (j *journey) receive() {
	j.t.Helper()
	p := newProgram(j.t, j.toDir, nil, append(j.receiveArgs, "--log-level", "debug", "--invitation", j.invitation())...)
	p.cmd.Args[1] = "receive"
	p.launch()
	j.receiving = p
}

// expects starts the target's runner, and waits until it is ready for the guest.
func (j *journey) expects() {
	j.t.Helper()
	j.receive()
	j.receiving.await(`waiting for a guest`)
}

// newJourney creates two folders of a VM.
func newJourney(t *testing.T, vmType string, section []string, receiveArgs ...string) *journey {
	t.Helper()
	return &journey{
		t: t, fromDir: folder(t, vmType, section...), toDir: folder(t, vmType, section...), receiveArgs: receiveArgs,
	}
}

// begins starts the VM, and a runner that waits for its guest.
func (j *journey) begins(args ...string) *journey {
	j.t.Helper()
	j.sending = booted(j.t, j.fromDir, args...)
	j.expects()
	return j
}

// begin starts a VM, and a runner that waits for its guest. Both log at debug level.
func begin(t *testing.T, section ...string) *journey {
	t.Helper()
	return newJourney(t, "standard", section).begins("--log-level", "debug")
}

// back returns the journey of a migrated guest in the other direction.
func (j *journey) back() *journey {
	return &journey{t: j.t, fromDir: j.toDir, toDir: j.fromDir, sending: j.receiving}
}

// moves runs a migration that must succeed.
func (j *journey) moves() {
	j.t.Helper()
	out, err := j.migrate()
	require.NoError(j.t, err, out)
	require.Zero(j.t, j.sending.exit())
}

// migrate runs the verb.
func (j *journey) migrate(args ...string) (string, error) {
	out, err := exec.CommandContext(j.t.Context(), "vmrunner", append([]string{
		"migrate", "--runtime-dir", filepath.Join(j.fromDir, "run"), "--to", j.invitation(),
	}, args...)...).CombinedOutput()
	return string(out), err
}

// runs reports whether the guest of a folder runs, according to its runner.
func runs(t *testing.T, dir string) bool {
	t.Helper()
	client, err := control.Dial(t.Context(), filepath.Join(dir, "run", control.SocketName))
	if err != nil {
		return false
	}
	s, err := client.Status(t.Context())
	return err == nil && s.QEMU.RunState == "running" && s.Migration == nil
}

// counterSection returns the section of a guest that counts, on a disk that both sides use.
func counterSection(t *testing.T) []string {
	t.Helper()
	disk := filepath.Join(t.TempDir(), "disk.img")
	require.NoError(t, os.WriteFile(disk, guest.Counter(false), 0o600))
	return []string{
		"accelerator: tcg", "firmware: bios", "network: []", "maximumRam: 64 MiB", "powerdownTimeout: 0",
		"drives: [{file: " + disk + ", bootindex: 1}]",
	}
}

// Linux is migrated with its memory, and doesn't notice.
func TestALinuxIsMigrated(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	j := begin(t, tiny(t, "")...)
	from := console(t, j.fromDir)
	from.await(`TINY \S+ READY`)
	from.typeLine("sh cat /proc/sys/kernel/random/boot_id >/tmp/boot; echo kept >>/tmp/boot; cat /tmp/boot")
	from.await(`kept\n`)

	out, err := j.migrate("--downtime", "300ms")
	require.NoError(t, err, out)
	require.Empty(t, out)
	require.Zero(t, j.sending.exit())
	require.Contains(t, j.sending.out.String(), "outcome=moved")
	to := console(t, j.toDir)
	to.typeLine("sh grep -c -f /proc/sys/kernel/random/boot_id /tmp/boot; cat /tmp/boot")
	to.await(`(?m)^1\r?$`) // it has not rebooted
	to.await(`kept`)
	require.NoFileExists(t, j.invitation())

	again := start(t, j.fromDir, nil)
	require.Equal(t, 1, again.exit())
	require.Contains(t, again.out.String(), "the guest was moved to the runner at 127.0.0.1:")
	j.receiving.stops(j.toDir)
}

// killMoment is the moment at which a runner is killed: when a side has logged a text.
type killMoment struct{ side, at string }

func killMoments() []killMoment {
	return []killMoment{
		{"source", `event=Connected`},
		{"source", `"heard Accept"`},
		{"source", `event=AtSwitch`},
		{"source", `event=Copied`},
		{"source", `send=Go`},
		{"source", `"heard Resumed"`},
		{"target", `"heard Offer"`},
		{"target", `event=Suits`},
		{"target", `event=Listens`},
		{"target", `event=Complete`},
		{"target", `"heard Go"`},
		{"target", `event=Continues`},
	}
}

// killsOne migrates, kills a runner at a moment, and starts it again. It reports whether the guest has moved to the
// target.
func (j *journey) killsOne(side, at string) (there bool) {
	j.t.Helper()
	victim := j.sending
	if side == "target" {
		victim = j.receiving
	}
	asked := make(chan string, 1)
	go func() { out, _ := j.migrate(); asked <- out }()
	victim.await(at)
	victim.kill()
	if side == "source" {
		j.sending = start(j.t, j.fromDir, nil, "--log-level", "debug")
	} else {
		j.receive()
	}
	here, there := j.oneRuns(wait.Longest)
	require.True(j.t, here || there)
	<-asked
	return there
}

// Either runner may be killed at any moment: after its restart, the guest runs on one side.
func TestARunnerIsKilledWhileItMigrates(t *testing.T) {
	t.Parallel()
	for i, c := range killMoments() {
		t.Run(c.side+" "+strings.Trim(c.at, `"`), func(t *testing.T) {
			t.Parallel()
			if i%3 != 1 {
				tier.Deep(t)
			}
			j := begin(t, counterSection(t)...)
			there := j.killsOne(c.side, c.at)
			if there {
				require.Contains(t, []int{0, 1}, j.sending.exit())
				if c.at == `event=Continues` || c.at == `"heard Resumed"` {
					return // the source knows the result, and its last messages may be lost
				}
				wait.Until(t, func() bool {
					_, err := os.Stat(handover.Path(filepath.Join(j.toDir, "data")))
					return os.IsNotExist(err)
				}, "the target waits for the source, which knows all")
			}
			// An adopted runner reports the migration until it has ended it.
			wait.Until(t, func() bool { return runs(t, j.fromDir) != runs(t, j.toDir) }, "one side runs the guest")
			t.Log("the guest runs at the target:", there)
		})
	}
}

// Ctrl-C during a migration leaves the guest at the source.
func TestAMigrationIsInterrupted(t *testing.T) {
	t.Parallel()
	j := begin(t, counterSection(t)...)
	cmd := exec.CommandContext(t.Context(), "vmrunner", "migrate", "--runtime-dir", filepath.Join(j.fromDir, "run"),
		"--to", j.invitation(), "--bandwidth", "100 KiB")
	require.NoError(t, cmd.Start())
	j.sending.await(`heard Accept`)
	wait.Until(t, func() bool {
		s := known(t, j.fromDir)
		return s.Migration != nil && s.Migration.Stage == "Copying"
	})
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.Error(t, cmd.Wait())
	require.Equal(t, 1, j.receiving.exit())
	require.Contains(t, j.receiving.out.String(), "the source keeps the guest: the migration was cancelled")
	wait.Until(t, func() bool { return runs(t, j.fromDir) })
	invariants.NothingLeft(t, j.toDir)
}

// The firmware variables move with the guest: QEMU writes them into the target's file.
func TestFirmwareVariablesAreMigrated(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	j := begin(t, "accelerator: tcg", "firmware: uefi-4m", "network: []", "maximumRam: 256 MiB")
	from := console(t, j.fromDir)
	from.await(`UEFI Interactive Shell`) // the firmware has written some by now
	j.moves()
	variables := func(dir string) []byte {
		text, err := os.ReadFile(filepath.Join(dir, "data", "fw-vars.fd"))
		require.NoError(t, err)
		return text
	}
	require.True(t, bytes.Equal(variables(j.fromDir), variables(j.toDir)))
	template, err := os.ReadFile("/usr/share/OVMF/OVMF_VARS_4M.fd")
	require.NoError(t, err, "Debian package ovmf")
	require.False(t, bytes.Equal(template, variables(j.toDir)), "the firmware has written nothing that could get lost")
	to := console(t, j.toDir)
	wait.Until(t, func() bool { // the first keys may only end the shell's countdown
		to.typeLine("ver\r")
		return strings.Contains(to.out.out.String(), "UEFI v2")
	})
}
