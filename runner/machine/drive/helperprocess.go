package drive

import (
	"slices"
	"syscall"
	"time"

	"vmop/runner/machine"
)

// endTime is how long a restarted helper may take to end after QEMU.
const endTime = 2 * time.Second

// followHelper watches for the end of a helper.
func (d *Driver) followHelper(h Process) {
	d.helpers = append(d.helpers, h)
	go func() {
		select {
		case <-h.Done():
			d.Do(func() {}) // seeHelpers is called before
		case <-d.done:
		}
	}()
}

// seeHelpers reports the helpers that have ended to the State.
func (d *Driver) seeHelpers() {
	d.helpers = slices.DeleteFunc(d.helpers, func(h Process) bool {
		select {
		case <-h.Done():
			d.state.HelperExited(h.Name(), h.Exit().String(), time.Now())
			return true
		default:
			return false
		}
	})
}

// startHelper restarts a helper.
func (d *Driver) startHelper(a machine.StartHelper) {
	p, conn, err := d.cfg.StartHelper(d.closed, a.Name, a.Socket)
	taken := d.callBetweenSteps(d.closed, func(now time.Time) {
		if p != nil {
			d.started = append(d.started, p)
			d.followHelper(p)
		}
		d.state.HelperStarted(a.Name, conn, err, now)
	})
	if !taken && p != nil {
		_ = conn.Close()              // conn may be nil
		_ = p.Signal(syscall.SIGTERM) // an error means that it has just ended
	}
}

// endStarted waits for the end of restarted helpers. They usually end with QEMU, or soon after; otherwise they
// are killed.
func (d *Driver) endStarted() {
	for _, p := range d.started {
		select {
		case <-p.Done():
		case <-time.After(endTime):
			_ = p.Signal(syscall.SIGKILL)
			<-p.Done()
		}
	}
}
