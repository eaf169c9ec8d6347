package reconcile_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/machine/reconcile"
	"vmop/vmtypes/plan"
)

// bothDisplays contains rules for a SPICE server and the VNC server with an id.
var bothDisplays = []plan.Rule{plan.Password{Protocol: "spice"}, plan.Password{Protocol: "vnc", Display: "vnc0"}}

func set(text string) []string {
	return []string{
		fmt.Sprintf(`set_password {"password":%q,"protocol":"spice"}`, text),
		fmt.Sprintf(`set_password {"display":"vnc0","password":%q,"protocol":"vnc"}`, text),
	}
}

func expire(when string) []string {
	return []string{
		fmt.Sprintf(`expire_password {"protocol":"spice","time":%q}`, when),
		fmt.Sprintf(`expire_password {"display":"vnc0","protocol":"vnc","time":%q}`, when),
	}
}

func setAndExpire(text, when string) []string {
	s, e := set(text), expire(when)
	return []string{s[0], e[0], s[1], e[1]}
}

func TestPasswordAndExpiryFollowTheirFiles(t *testing.T) {
	t.Parallel()
	k := newTalk(t, reconcile.Start{}, bothDisplays...)
	serial := 0
	for _, c := range []struct {
		text, expiry string
		says         []string
		serial       int
	}{
		{"s", "", set("s"), 1},
		{"s", "", nil, 1},
		{"t", "+60", setAndExpire("t", "+60"), 2},
		{"t", "+60", nil, 2},
		{"t", "+90", expire("+90"), 2},
		{"t", "", expire("never"), 2}, // QEMU would keep the old expiry
		{"u", "", setAndExpire("u", "never"), 3},
		{"u", "now", expire("now"), 3},
	} {
		k.want.Password = secret(c.text, c.expiry)
		k.says(c.says...)
		require.Equal(t, serial, k.machine.Facts().PasswordSerial)
		k.isDone()
		k.silent()
		serial = k.machine.Facts().PasswordSerial
		require.Equal(t, c.serial, serial)
	}
	k.complains()
}

func TestAPasswordCannotBeTakenAway(t *testing.T) {
	t.Parallel()
	k := newTalk(t, reconcile.Start{Password: secret("s", "")}, bothDisplays...)
	k.silent()
	k.complains("display-password: a display keeps its password until the next start: the old password stays valid")
	k.want.Password = secret("s", "")
	k.silent()
	k.complains()

	k = newTalk(t, reconcile.Start{}) // a machine started without rules
	k.want.Password = secret("s", "")
	k.silent()
}

func TestARefusedPasswordIsSetAgainOnAllDisplays(t *testing.T) {
	t.Parallel()
	k := newTalk(t, reconcile.Start{}, bothDisplays...)
	k.want.Password = secret("s", "")
	k.says(set("s")...)
	k.isDone()
	k.want.Password = secret("s", "+9")
	k.says(expire("+9")...)
	k.returns("", "error: Could not set password")
	k.complains("display-password: set the display's password: Could not set password")
	require.NotContains(t, fmt.Sprint(k.machine.Facts()), "s+9")
	k.waits(500 * time.Millisecond)
	k.want.Password = secret("s", "")
	k.says(setAndExpire("s", "never")...) // it is unknown which display has which password
	k.isDone()
	k.silent()
	k.complains()
	require.Equal(t, 1, k.machine.Facts().PasswordSerial, "the text has not changed")
}

func counter(n int64) *int64 { return &n }

func TestALargerCounterResets(t *testing.T) {
	t.Parallel()
	k := newTalk(t, reconcile.Start{})
	k.want.ResetCounter = counter(3)
	k.silent() // the first change is only remembered
	k.want.ResetCounter = counter(4)
	k.silent() // the guest isn't running yet
	k.event("RESUME", "")
	k.silent()
	k.want.ResetCounter = counter(7)
	k.says("system_reset")
	k.want.ResetCounter = counter(9)
	k.isDone()
	k.says("system_reset")
	k.isDone()
	k.silent()
	k.want.ResetCounter = counter(1)
	k.silent()
	k.want.ResetCounter = nil
	k.silent()
	k.event("STOP", "")
	k.want.ResetCounter = counter(2)
	k.silent()
	k.complains("resetCounter: the VM is reset when it runs again")
	k.event("RESUME", "")
	k.says("system_reset")
	k.loses()
	k.complains("resetCounter: reset the VM: no reply; a larger counter tries again")
	k.passes(time.Hour)
	k.silent() // never twice for one change
}

func TestAResetThatMustNotBeIsRefused(t *testing.T) {
	t.Parallel()
	k := newTalk(t, reconcile.Start{Running: true, ResetCounter: counter(3)})
	k.want.ResetCounter, k.want.NoReset = counter(4), "the TPM is lost"
	k.silent()
	k.complains("resetCounter: the TPM is lost")
	k.want.ResetCounter = counter(3)
	k.silent()
	k.complains()
	k.want.ResetCounter, k.want.NoReset = counter(5), ""
	k.says("system_reset")
}

func TestAMachineThatWasFoundRunningKnowsItsCounter(t *testing.T) {
	t.Parallel()
	k := newTalk(t, reconcile.Start{Running: true, ResetCounter: counter(3)})
	k.want.ResetCounter = counter(3)
	k.silent()
	k.want.ResetCounter = counter(4)
	k.says("system_reset")
}

// disks returns query-block's answer for a disk with a size.
func disks(size int64) string {
	return fmt.Sprintf(`[{"device": "", "qdev": "/machine/peripheral/disk0/virtio-backend",
		"inserted": {"file": "/d", "node-name": "disk0-format", "image": {"virtual-size": %d}}}]`, size)
}

func TestADiskGrows(t *testing.T) {
	t.Parallel()
	k := newTalk(t, reconcile.Start{}, plan.Disk{Drive: 0, Device: "disk0"})
	k.want.Sizes = map[int]int64{0: 1000}
	k.silent() // QEMU has just opened it
	k.event("RESUME", "")
	k.want.Sizes = map[int]int64{0: 2000}
	k.says(askBlocks)
	k.returns(disks(1024))
	k.says(`block_resize {"node-name":"disk0-format","size":2000}`)
	k.isDone()
	k.silent()

	k.want.Sizes = map[int]int64{0: 500}
	k.says(askBlocks)
	k.returns(disks(2048))
	k.silent() // never smaller
	k.complains("vm.drives[0]: /d has only 500 bytes on the host, but the guest's disk has 2048: the guest has lost what was beyond; restore its size, and check the guest's file systems")
	k.want.Sizes = map[int]int64{0: 2000}
	k.silent() // rounded to QEMU's sectors
	k.complains()
	k.want.Sizes = map[int]int64{0: 3000}
	k.says(askBlocks)
	k.returns(disks(4096))
	k.silent() // QEMU already has a larger size
	k.want.Sizes = map[int]int64{0: 5000}
	k.says(askBlocks)
	k.returns("[]")
	k.complains("vm.drives[0]: the machine has no block device disk0")
	k.passes(500 * time.Millisecond)
	k.says(askBlocks)
	k.returns(disks(4096))
	k.says(`block_resize {"node-name":"disk0-format","size":5000}`)
	k.returns("error: Image is read-only")
	k.complains("vm.drives[0]: make the disk larger: Image is read-only")
	k.waits(time.Second)
	k.want.Sizes = nil
	k.passes(time.Minute)
	k.silent()
}

func TestAllIsSaidAtOnceBeforeTheGuestRuns(t *testing.T) {
	t.Parallel()
	rules := append([]plan.Rule{
		fourCPUs(), balloon(),
		plan.Medium{Drive: 1, Device: "cd0"},
		plan.Disk{Drive: 0, Device: "disk0"},
	}, bothDisplays...)
	k := newTalk(t, reconcile.Start{Media: map[int]string{1: ""}}, rules...)
	k.want = reconcile.Desired{
		CPUs: 3, RAM: 128 * mib, Password: secret("s", "+60"), ResetCounter: counter(1),
		Media: map[int]string{1: ""}, Sizes: map[int]int64{0: 1 << 30},
	}
	k.says(append([]string{askCPUs, inflate(128)}, setAndExpire("s", "+60")...)...)
	k.returns(slots(4), "", "", "", "", "")
	k.says(add(1, "cpu-1"), add(2, "cpu-2"))
	k.isDone()
	k.silent()
	k.complains()
}

func TestAnAnswerCountsOnce(t *testing.T) {
	t.Parallel()
	k := newTalk(t, reconcile.Start{}, balloon())
	k.want.RAM = 64 * mib
	step := k.machine.Next(k.want, k.now)
	require.Len(t, step.Requests, 1)
	for range 3 {
		k.machine.Answer(step.Requests[0], nil, nil, k.now)
		k.machine.Answer(reconcile.Request{}, nil, nil, k.now)
	}
	k.silent()
}
