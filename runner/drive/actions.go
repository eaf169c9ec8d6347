package drive

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"syscall"
	"time"

	"vmop/process"
	"vmop/qmp"
	"vmop/runner/machine"
)

// carryOut does what the State wants.
func (d *Driver) carryOut(ctx context.Context, action machine.Action) {
	switch a := action.(type) {
	case machine.Send:
		d.send(a)
	case machine.Withdraw:
		if p := d.pending[a.ID]; p != nil {
			p.Withdraw()
			delete(d.pending, a.ID)
		}
	case machine.Dial:
		d.dial(ctx)
	case machine.Publish:
		if err := d.cfg.Tracker.Update(a.Updates...); err != nil {
			d.cfg.Log.Warn("status", "err", err)
		}
	case machine.Log:
		d.cfg.Log.Log(ctx, a.Level, a.Message, a.Attrs...)
	case machine.Signal:
		_ = d.cfg.QEMU.Signal(a.Signal) // an error means that it has ended now
	case machine.Save:
		if err := d.cfg.Save(a.Progress); err != nil {
			d.cfg.Log.Warn("the progress is not saved", "err", err)
		}
	case machine.Answer:
		d.answer(a)
	case machine.Settled:
		d.settled <- a.Err
	case machine.Measure:
		go d.measure(a.Files)
	case machine.TryServer:
		go func() {
			err := tryServer(d.closed, d.cfg.Reach(a.Address), a.Address, serverTime)
			d.call(d.closed, func(now time.Time) { d.state.ServerTried(a.Address, err, now) })
		}()
	case machine.OpenDisk:
		go func() {
			file, err := OpenDisk(d.closed, a.Drive.Drive, d.cfg.Log)
			asked := d.call(d.closed, func(now time.Time) { d.state.DiskOpened(a.Drive, file, err, now) })
			if !asked && file != nil {
				_ = file.Close()
			}
		}()
	case machine.Place:
		d.again = true
		err := process.Place(d.cfg.Machine.PID, a.Thread, a.CPUs)
		d.state.Placed(a.Placement, err, time.Now())
	case machine.SetPort, machine.LogIn, machine.LeaveAgents, machine.FindAgent, machine.ShutDownGuest,
		machine.FreezeGuest, machine.EndFreeze, machine.ThawGuest:
		d.askAgents(action)
	case machine.StartHelper:
		go d.startHelper(a)
	case machine.Close:
		_ = a.Closer.Close()
	case machine.End:
		d.outcome = &a.Outcome
	}
}

// askAgents does what the State wants of the agents in the guest.
func (d *Driver) askAgents(action machine.Action) {
	switch a := action.(type) {
	case machine.SetPort:
		d.cfg.Agents.SetPort(a.Role, a.Open, a.Greeted)
	case machine.LogIn:
		d.cfg.Agents.LogIn(a.User)
	case machine.LeaveAgents:
		d.cfg.Agents.Leave()
	case machine.FindAgent:
		d.again = true
		d.cfg.Agents.Find(a.Timeout, func(found bool, err error) { d.state.AgentFound(found, err, time.Now()) })
	case machine.ShutDownGuest:
		d.cfg.Agents.ShutDown(a.Timeout, func(err error) { d.state.AgentAnswered(err) })
	case machine.FreezeGuest:
		d.freeze(a)
	case machine.EndFreeze:
		d.cfg.Agents.EndFreeze()
	case machine.ThawGuest:
		d.cfg.Agents.Thaw(a.Timeout, func(count int, err error) { d.state.GuestThawed(count, err, time.Now()) })
	}
}

// send says a command. The session's reader hands the reply over, unless the
// session is given up meanwhile. Where the session has ended, events that it has
// left are taken in before that is noticed.
func (d *Driver) send(a machine.Send) {
	if d.session == nil {
		d.again = true
		d.state.Unsent(a.ID, time.Now())
		return
	}
	lasting := d.lasting
	pending, err := d.session.Call(a.Command, func(text json.RawMessage, err error) {
		select {
		case d.replies <- reply{a.ID, text, err}:
		case <-lasting.Done():
		}
	})
	switch {
	case err == nil:
		d.pending[a.ID] = pending
	case errors.Is(err, qmp.ErrClosed):
		d.again = true
		d.state.Unsent(a.ID, time.Now())
	default:
		d.again = true
		d.state.Reply(a.ID, nil, err, time.Now())
	}
}

func (d *Driver) answer(a machine.Answer) {
	if to := d.asking[a.To]; to != nil {
		delete(d.asking, a.To)
		to <- a
	}
}

// measure finds out the space of the file systems that files are on. A host that
// does not answer (NFS) keeps nothing waiting but this.
func (d *Driver) measure(files []string) {
	spaces := map[string]machine.Space{}
	for _, file := range files {
		spaces[file] = spaceOf(file)
	}
	d.call(d.closed, func(now time.Time) { d.state.Measured(spaces, now) })
}

// spaceOf returns the space of the file system that a disk lies on, if it is a
// file.
func spaceOf(file string) machine.Space {
	info, err := os.Stat(file)
	var s syscall.Statfs_t
	if err != nil || !info.Mode().IsRegular() || syscall.Statfs(file, &s) != nil {
		return machine.Space{}
	}
	return machine.Space{Known: true, Free: int64(s.Bavail) * s.Bsize, Size: int64(s.Blocks) * s.Bsize}
}
