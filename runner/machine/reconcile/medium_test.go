package reconcile_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/machine/reconcile"
	"vmop/vmtypes/plan"
)

const (
	askBlocks = "query-block"
	locked    = "error: Device 'cd0' is locked and force was not specified, wait for tray to open and try again"
	shut      = "error: Tray of device 'cd0' is not open"
	missing   = "error: Could not open '/b.iso': No such file or directory"
	waiting   = "vm.drives[1].file: waiting for the guest to open the tray, which it has locked"

	openTray   = `blockdev-open-tray {"id":"cd0"}`
	takeOut    = `blockdev-remove-medium {"id":"cd0"}`
	closeTray  = `blockdev-close-tray {"id":"cd0"}`
	trayOpens  = `{"device": "cd0-medium", "id": "cd0", "tray-open": true}`
	trayCloses = `{"device": "cd0-medium", "id": "cd0", "tray-open": false}`
)

func putIn(file string) string {
	return fmt.Sprintf(`blockdev-change-medium {"filename":%q,"format":"raw","id":"cd0","read-only-mode":"read-only"}`, file)
}

// drive returns query-block's answer for the CD drive.
func drive(file string, isLocked, open bool) string {
	inserted := ""
	if file != "" {
		inserted = fmt.Sprintf(`, "inserted": {"file": %q, "node-name": "#block1", "image": {"virtual-size": 65536}}`, file)
	}
	return fmt.Sprintf(`[{"device": "", "qdev": "/machine/peripheral/disk0/virtio-backend"},
		{"device": "cd0-medium", "qdev": "cd0", "removable": true, "locked": %t, "tray_open": %t%s}]`, isLocked, open, inserted)
}

// withCD returns a machine started with a.iso in its drive.
func withCD(t *testing.T) *talk {
	k := newTalk(t, reconcile.Start{Media: map[int]string{1: "/a.iso"}}, plan.Medium{Drive: 1, Device: "cd0"})
	k.event("RESUME", "")
	k.wantCD("/a.iso")
	k.silent()
	return k
}

func (k *talk) wantCD(file string) { k.want.Media = map[int]string{1: file} }

func (k *talk) has(m reconcile.Medium) {
	k.t.Helper()
	require.Equal(k.t, m, k.machine.Facts().Media[1])
}

func TestAMediumIsChanged(t *testing.T) {
	t.Parallel()
	for want, name := range map[string]string{
		"/b.iso":             "file:/b.iso",
		"/odd,a:b.iso":       "file:/odd,a:b.iso",
		"json:{}":            "file:json:{}",
		"nbd://h/x":          "file:nbd://h/x",
		"http://h/b.iso?c=d": "http://h/b.iso?c=d",
		"https://h/b.iso":    "https://h/b.iso",
	} {
		k := withCD(t)
		k.wantCD(want)
		k.says(putIn(name))
		k.has(reconcile.Medium{File: "/a.iso", Pending: true})
		k.event("DEVICE_TRAY_MOVED", trayOpens)
		k.event("DEVICE_TRAY_MOVED", trayCloses)
		k.isDone()
		k.silent()
		k.has(reconcile.Medium{File: want})
	}
}

// A medium that QEMU may not read is not tried until it changes.
func TestAMediumThatIsDenied(t *testing.T) {
	t.Parallel()
	k := withCD(t)
	k.wantCD("/elsewhere/b.iso")
	k.want.Denied = map[int]string{1: "restart the VM"}
	k.silent()
	k.complains("vm.drives[1].file: restart the VM")
	k.has(reconcile.Medium{File: "/a.iso", Pending: true})
	k.want.Denied = nil
	k.wantCD("/b.iso")
	k.says(putIn("file:/b.iso"))
}

func TestAMediumIsTakenOutAndAnotherPutIn(t *testing.T) {
	t.Parallel()
	k := withCD(t)
	k.wantCD("")
	k.says(openTray, takeOut, closeTray)
	k.event("DEVICE_TRAY_MOVED", trayOpens)
	k.isDone()
	k.event("DEVICE_TRAY_MOVED", trayCloses) // events may come later than answers
	k.silent()
	k.has(reconcile.Medium{})
	k.wantCD("/b.iso")
	k.says(putIn("file:/b.iso"))
	k.isDone()
	k.silent()
	k.has(reconcile.Medium{File: "/b.iso"})
}

func TestALockedTrayWaitsForTheGuest(t *testing.T) {
	t.Parallel()
	k := withCD(t)
	k.wantCD("/b.iso")
	k.says(putIn("file:/b.iso"))
	k.returns(locked)
	k.waits(500 * time.Millisecond)
	k.complains(waiting)
	k.has(reconcile.Medium{File: "/a.iso", Locked: true, Pending: true})

	k.passes(500 * time.Millisecond)
	k.says(putIn("file:/b.iso")) // the guest is asked again
	k.returns(locked)
	k.waits(time.Second)
	k.passes(600 * time.Millisecond)
	k.event("DEVICE_TRAY_MOVED", trayOpens)
	k.says(putIn("file:/b.iso"))
	k.event("DEVICE_TRAY_MOVED", trayCloses)
	k.isDone()
	k.silent()
	k.complains()
	k.has(reconcile.Medium{File: "/b.iso"})
}

func TestAMediumThatTheGuestUsesIsTakenOutWhenItLetsGo(t *testing.T) {
	t.Parallel()
	k := withCD(t)
	k.wantCD("")
	k.says(openTray, takeOut, closeTray)
	k.returns("", shut, "")
	k.says(askBlocks)
	k.returns(drive("/a.iso", true, false))
	k.waits(500 * time.Millisecond)
	k.complains(waiting)
	k.passes(100 * time.Millisecond)
	k.event("DEVICE_TRAY_MOVED", trayOpens)
	k.waits(150 * time.Millisecond)
	k.passes(150 * time.Millisecond)
	k.says(openTray, takeOut, closeTray)
	k.isDone()
	k.silent()
	k.complains()
	k.has(reconcile.Medium{})
}

func TestTheGuestsOwnEjectIsRespected(t *testing.T) {
	t.Parallel()
	k := withCD(t)
	k.event("DEVICE_TRAY_MOVED", trayOpens)
	k.silent()
	k.has(reconcile.Medium{File: "/a.iso", Open: true})
	k.passes(time.Hour)
	k.silent()

	k.wantCD("/b.iso")
	k.says(putIn("file:/b.iso"))
	k.isDone()
	k.silent()
	k.event("DEVICE_TRAY_MOVED", trayCloses)
	k.event("DEVICE_TRAY_MOVED", trayOpens)
	k.silent() // even after a change
	k.has(reconcile.Medium{File: "/b.iso", Open: true})
}

func TestAMissingFileLeavesTheMedium(t *testing.T) {
	t.Parallel()
	k := withCD(t)
	k.wantCD("/b.iso")
	k.says(putIn("file:/b.iso"))
	k.returns(missing)
	k.waits(500 * time.Millisecond)
	k.complains("vm.drives[1].file: change the medium to /b.iso: Could not open '/b.iso': No such file or directory")
	k.has(reconcile.Medium{File: "/a.iso", Pending: true})
	k.passes(500 * time.Millisecond)
	k.says(askBlocks) // is it unchanged?
	k.returns(drive("/a.iso", false, false))
	k.says(putIn("file:/b.iso"))
	k.returns(missing)
	k.waits(time.Second)
	k.wantCD("/a.iso")
	k.says(askBlocks)
	k.returns(drive("/a.iso", false, false))
	k.silent()
	k.complains()
}

func TestALostAnswerIsLookedUp(t *testing.T) {
	t.Parallel()
	k := withCD(t)
	k.wantCD("/b.iso")
	k.says(putIn("file:/b.iso"))
	k.loses()
	k.passes(500 * time.Millisecond)
	k.says(askBlocks)
	k.returns(drive("/b.iso", false, false)) // it succeeded
	k.silent()
	k.complains()
}

func TestTheMediaOfARunningMachineAreAskedFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, want string
		says       []string
	}{
		"as wanted":        {"/a.iso", "/a.iso", nil},
		"a web address":    {"http://h/a", "http://h/a", nil},
		"with options":     {`json:{"driver":"raw","file":{"driver":"https","url":"https://h/a"}}`, "https://h/a", nil},
		"a file so called": {`json:{"driver":"raw","file":{"driver":"file","filename":"/x:y"}}`, "/x:y", nil},
		"no name":          {`json:{"driver":"null-co"}`, "/a.iso", []string{putIn("file:/a.iso")}},
		"another":          {"/b.iso", "/a.iso", []string{putIn("file:/a.iso")}},
		"empty":            {"", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newTalk(t, reconcile.Start{Running: true}, plan.Medium{Drive: 1, Device: "cd0"},
				plan.Medium{Drive: 2, Device: "cd1"})
			k.want.Media = map[int]string{1: c.want, 2: ""}
			k.says(askBlocks)
			k.returns(drive(c.file, false, false)) // one query for both
			k.says(c.says...)
			k.complains("vm.drives[2].file: the machine has no block device cd1")
			require.Len(t, k.machine.Facts().Media, 1)
		})
	}
}

func TestADriveThatIsNoLongerListedIsLeftAlone(t *testing.T) {
	t.Parallel()
	k := withCD(t)
	k.wantCD("/b.iso")
	k.says(putIn("file:/b.iso"))
	k.returns(locked)
	k.want.Media = nil
	k.waits(500 * time.Millisecond)
	k.passes(time.Hour)
	k.silent()
	k.complains()
}

func TestATrayThatMovesAllTheTimeIsNotChased(t *testing.T) {
	t.Parallel()
	k := withCD(t)
	k.wantCD("")
	said := 0
	for range 2000 {
		k.passes(time.Millisecond)
		k.event("DEVICE_TRAY_MOVED", trayOpens)
		step := k.machine.Next(k.want, k.now)
		said += len(step.Requests)
		k.open = step.Requests
		switch len(k.open) {
		case 1:
			k.returns(drive("/a.iso", false, false))
		case 3:
			k.returns("", shut, "")
		}
	}
	require.LessOrEqual(t, said, 9*4)
}

// An address's password is passed as a QEMU object while the medium is opened, and appears in no file name or message.
// A new password causes another attempt.
func TestAPasswordIsInNoName(t *testing.T) {
	t.Parallel()
	const forget = `object-del {"id":"cd0_password"}`
	add := func(password string) string {
		return `object-add {"data":"` + password + `","id":"cd0_password","qom-type":"secret"}`
	}
	change := func(node string) string { return putIn(`json:{"driver":"raw","file":{"driver":"https",` + node + `}}`) }
	both := change(`"password-secret":"cd0_password","url":"https://h/b.iso","username":"me"`)
	k := withCD(t)
	k.wantCD("https://me:canary@h/b.iso")
	k.says(forget, add("canary"), both, forget)
	k.returns("error: no such object", "", "error: 401", "")
	k.complains("vm.drives[1].file: change the medium to https://h/b.iso: 401")
	k.wantCD("https://me:other@h/b.iso")
	k.says(askBlocks)
	k.returns(drive("/a.iso", false, false))
	k.says(forget, add("other"), both, forget)
	k.isDone()
	k.silent()
	k.has(reconcile.Medium{File: "https://h/b.iso"})
	k.wantCD("https://me@h/c.iso")
	k.says(change(`"url":"https://h/c.iso","username":"me"`))
	k.isDone()
	k.has(reconcile.Medium{File: "https://h/c.iso"})
	k.wantCD("https://me:pw@h/c.iso")
	k.silent()
}

// QEMU opens web addresses in its main thread and thereby blocks the guest. A medium with a silent server is therefore
// not passed to QEMU.
func TestAServerThatDoesNotAnswerStopsNoGuest(t *testing.T) {
	t.Parallel()
	const address = "http://h/b.iso"
	k := withCD(t)
	k.silence = map[string]bool{address: true}
	k.wantCD(address)
	k.silent()
	pause := 500 * time.Millisecond
	for n := 1; n < 10; n++ {
		require.Len(t, k.asked, n)
		k.machine.Answers(address, errors.New("the server does not answer within 3s"), k.now)
		k.waits(pause)
		k.complains("vm.drives[1].file: change the medium to http://h/b.iso: the server does not answer within 3s; QEMU does " +
			"not get the address before the server answers: the guest would stop while QEMU waits")
		k.passes(pause)
		k.silent()
		pause = min(2*pause, time.Minute)
	}
	k.machine.Answers(address, nil, k.now)
	k.says(putIn(address))
	k.isDone()
	k.silent()
	k.complains()
	k.has(reconcile.Medium{File: address})
	k.machine.Answers(address, nil, k.now) // a repeated answer has no effect
}

// A server that answers but then blocks QEMU is not tried again for minutes, regardless of the tray.
func TestAServerThatStopsTheGuestIsLeftAlone(t *testing.T) {
	t.Parallel()
	const address = "https://h/b.iso"
	k := withCD(t)
	k.wantCD(address)
	for _, pause := range []time.Duration{2, 4, 8, 16, 16} {
		k.says(putIn(address))
		k.passes(5 * time.Second)
		k.returns("error: CURL: timeout")
		k.waits(pause * time.Minute)
		k.complains(fmt.Sprintf("vm.drives[1].file: change the medium to %s: CURL: timeout; the guest stopped for 5s while "+
			"QEMU waited, so the next attempt is %s later", address, pause*time.Minute))
		k.event("DEVICE_TRAY_MOVED", trayOpens)
		k.waits(pause * time.Minute)
		k.passes(pause * time.Minute)
		k.says(askBlocks)
		k.returns(drive("/a.iso", false, false))
	}
	k.says(putIn(address))
	k.returns("error: CURL: 404") // immediately
	k.waits(time.Minute)
	k.wantCD("/b.iso")
	k.says(askBlocks)
	k.returns(drive("/a.iso", false, false))
	k.says(putIn("file:/b.iso"))
}
