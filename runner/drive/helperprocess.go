package drive

import (
	"slices"
	"syscall"
	"time"

	"vmop/runner/machine"
)

// endTime is what a helper that was started again has to end after QEMU.
const endTime = 2 * time.Second

// follow has the end of a helper noticed.
func (d *Driver) follow(h Process) {
	d.helpers = append(d.helpers, h)
	go func() {
		select {
		case <-h.Done():
			d.Do(func() {}) // seeHelpers is called before
		case <-d.done:
		}
	}()
}

// seeHelpers takes in which helpers have ended.
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

// startHelper starts a helper again.
func (d *Driver) startHelper(a machine.StartHelper) {
	p, conn, err := d.cfg.StartHelper(d.closed, a.Name, a.Socket)
	taken := d.call(d.closed, func(now time.Time) {
		if p != nil {
			d.started = append(d.started, p)
			d.follow(p)
		}
		d.state.HelperStarted(a.Name, conn, err, now)
	})
	if !taken && p != nil {
		_ = conn.Close()              // there may be none
		_ = p.Signal(syscall.SIGTERM) // an error means that it has ended now
	}
}

// endStarted has the helpers that were started again end: they do so with QEMU, or
// soon.
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
