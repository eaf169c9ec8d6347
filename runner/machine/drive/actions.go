package drive

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"syscall"
	"time"

	"vmop/internal/childprocess"
	"vmop/qmp"
	"vmop/runner/machine"
)

// carryOut carries out an action of the State.
func (d *Driver) carryOut(ctx context.Context, action machine.Action) {
	switch a := action.(type) {
	case machine.Send:
		d.sendCommand(a)
	case machine.Withdraw:
		if p := d.pending[a.ID]; p != nil {
			p.Withdraw()
			delete(d.pending, a.ID)
		}
	case machine.Dial:
		d.dialAgain(ctx)
	case machine.Publish:
		if err := d.cfg.Tracker.Update(a.Updates...); err != nil {
			d.cfg.Log.Warn("status", "err", err)
		}
	case machine.Log:
		d.cfg.Log.Log(ctx, a.Level, a.Message, a.Attrs...)
	case machine.Signal:
		_ = d.cfg.QEMU.Signal(a.Signal) // an error means that QEMU has just ended
	case machine.Save:
		if err := d.cfg.Save(a.Progress); err != nil {
			d.cfg.Log.Warn("the progress is not saved", "err", err)
		}
	case machine.Answer:
		d.answerRequest(a)
	case machine.Settled:
		d.settled <- a.Err
	case machine.Measure:
		go d.measureSpace(a.Files)
	case machine.TryServer:
		go func() {
			err := tryServer(d.closed, d.cfg.Reach(a.Address), a.Address, serverTime)
			d.callBetweenSteps(d.closed, func(now time.Time) { d.state.ServerTried(a.Address, err, now) })
		}()
	case machine.OpenDisk:
		go func() {
			file, err := OpenDisk(d.closed, a.Drive.Drive, d.cfg.Log)
			asked := d.callBetweenSteps(d.closed, func(now time.Time) { d.state.DiskOpened(a.Drive, file, err, now) })
			if !asked && file != nil {
				_ = file.Close()
			}
		}()
	case machine.OpenCard, machine.ReleaseCard, machine.KeepCards:
		d.keepCards(action)
	case machine.Place:
		d.again = true
		err := childprocess.Place(d.cfg.Machine.PID, a.Thread, a.CPUs)
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

// askAgents carries out the actions that concern the agents in the guest.
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
		d.freezeGuest(a)
	case machine.EndFreeze:
		d.cfg.Agents.EndFreeze()
	case machine.ThawGuest:
		d.cfg.Agents.Thaw(a.Timeout, func(count int, err error) { d.state.GuestThawed(count, err, time.Now()) })
	}
}

// sendCommand sends a command. The session's reader passes the reply on, unless the session is given up before. If the
// session has ended, its remaining events are processed before the end is noticed.
func (d *Driver) sendCommand(a machine.Send) {
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

func (d *Driver) answerRequest(a machine.Answer) {
	if to := d.asking[a.To]; to != nil {
		delete(d.asking, a.To)
		to <- a
	}
}

// measureSpace queries the free space of the files' file systems. It runs in its own goroutine, because a host may not
// answer (NFS).
func (d *Driver) measureSpace(files []string) {
	spaces := map[string]machine.Space{}
	for _, file := range files {
		spaces[file] = spaceOf(file)
	}
	d.callBetweenSteps(d.closed, func(now time.Time) { d.state.Measured(spaces, now) })
}

// spaceOf returns the space of the file system that contains a disk, if the disk is a file.
func spaceOf(file string) machine.Space {
	info, err := os.Stat(file)
	var s syscall.Statfs_t
	if err != nil || !info.Mode().IsRegular() || syscall.Statfs(file, &s) != nil {
		return machine.Space{}
	}
	return machine.Space{Known: true, Free: int64(s.Bavail) * s.Bsize, Size: int64(s.Blocks) * s.Bsize}
}
