package handover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"vmop/internal/printable"
	"vmop/qmp"
	"vmop/runner/migrate/link"
)

// A Disk is a disk of the source that can be copied.
type Disk struct {
	// ID is the device's ID, which is equal on both sides. Node is its node name in the source's QEMU.
	ID   string
	Node string
}

// accepted is the data of the target's message Accept.
type accepted struct {
	// Copy contains the IDs of the disks that the target lacks.
	Copy []string `json:"copy,omitempty"`
	// Screen is the address for the source's SPICE clients; nil if they can't connect there.
	Screen *Screen `json:"screen,omitempty"`
}

// own is the prefix of all names that a migration uses in QEMU: of jobs, block nodes and exports.
const own = "vmop-move-"

// Names that belong to the i-th copied disk.
func jobName(i int) string    { return own + "job" + strconv.Itoa(i) }
func nodeName(i int) string   { return own + "node" + strconv.Itoa(i) }
func filterName(i int) string { return own + "filter" + strconv.Itoa(i) }

// diskStream is the name of the streams of disks.
const diskStream = "disk"

// connectTime is how long QEMU may take to connect to a local socket.
const connectTime = 10 * time.Second

// agreeOn records which disks the target needs copied, and its screen address.
func (s *Source) agreeOn(data json.RawMessage) error {
	var a accepted
	if len(data) > 0 {
		if err := json.Unmarshal(data, &a); err != nil {
			return fmt.Errorf("read which disks to copy: %w", err)
		}
	}
	if a.Screen.isAddress() {
		s.screen = a.Screen
	}
	for _, id := range a.Copy {
		found := false
		for _, d := range s.cfg.Disks {
			if d.ID == id {
				s.copies, found = append(s.copies, d), true
			}
		}
		if !found {
			return fmt.Errorf("the target wants a copy of the disk %s, which was not offered", printable.Line(id))
		}
	}
	return nil
}

// copyDisks starts to copy the disks that the target lacks, and returns when all are in sync. From then on each
// guest write reaches the target before the guest sees it complete. The streams last as long as lasting.
// copyDisks fails if an earlier migration has left copies that it could not end. The failure then ends those
// copies.
func (s *Source) copyDisks(ctx, lasting context.Context) error {
	if len(s.copies) == 0 {
		return nil
	}
	gate, err := listenAt(s.cfg.Socket)
	if err != nil {
		return fmt.Errorf("copy the disks: %w", err)
	}
	defer gate.Close() // also removes its path, so QEMU can't reconnect
	for i, d := range s.copies {
		if err := s.mirrorDisk(ctx, lasting, gate, i, d); err != nil {
			return fmt.Errorf("copy the disk %s: %w", d.ID, err)
		}
	}
	for {
		ready, err := s.diskProgress(ctx)
		if ready || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pollTime):
		}
	}
}

// listenAt creates a socket, and replaces an old socket at the same path.
func listenAt(path string) (*net.UnixListener, error) {
	if err := os.Remove(path); ignoreAbsent(err) != nil {
		return nil, err
	}
	return net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
}

// mirrorDisk starts to copy one disk. The connection to the target is established first, because QEMU waits for it in
// its main loop.
func (s *Source) mirrorDisk(ctx, lasting context.Context, gate *net.UnixListener, i int, d Disk) error {
	stream, err := link.Dial(ctx, s.cfg.Keys, diskStream)
	if err != nil {
		return err
	}
	if err := gate.SetDeadline(time.Now().Add(connectTime)); err != nil {
		return errors.Join(err, stream.Close())
	}
	go func() {
		local, err := gate.AcceptUnix()
		if err == nil {
			err = link.Carry(lasting, stream, local)
		} else {
			_ = stream.Close()
		}
		if err != nil && lasting.Err() == nil {
			s.log.Debug("migration: the stream of a disk has ended", "disk", d.ID, "err", err)
		}
	}()
	limited, cancel := context.WithTimeout(ctx, replyTime)
	defer cancel()
	for _, c := range []qmp.Command{
		{Execute: "blockdev-add", Arguments: members{
			"driver": "nbd", "node-name": nodeName(i), "export": d.ID, "discard": "unmap",
			"server": members{"type": "unix", "path": s.cfg.Socket},
		}},
		{Execute: "blockdev-mirror", Arguments: members{
			"job-id": jobName(i), "device": d.Node, "target": nodeName(i), "filter-node-name": filterName(i),
			"sync": "full", "copy-mode": "write-blocking", "speed": s.cfg.Bounds.Bandwidth, "auto-dismiss": false,
			"on-source-error": "stop", "on-target-error": "stop", // see dropCopies
		}},
	} {
		if err := runCommand(limited, s.machine, c); err != nil {
			return err
		}
	}
	return nil
}

// job is a copy job of QEMU; see BlockJobInfo in its QMP reference.
type job struct {
	ID       string `json:"device"`
	Status   string `json:"status"`
	Current  int64  `json:"offset"`
	Total    int64  `json:"len"`
	IOStatus string `json:"io-status"` // "ok", or why the job is paused
	Error    string `json:"error"`
}

const concluded = "concluded"

// failureText returns why the copy has failed, or "" if it has not.
func (j job) failureText() string {
	switch {
	case j.Error != "":
		return printable.Line(j.Error)
	case j.IOStatus == "nospace":
		return "No space left on device" // QEMU's message
	case j.IOStatus == "failed":
		return "a disk can't be read or written, or the target is gone"
	}
	return ""
}

// copyJobs returns QEMU's copy jobs.
func (s *Source) copyJobs(ctx context.Context) (list []job, err error) {
	reply, err := s.machine.Command(ctx, qmp.Command{Execute: "query-block-jobs"})
	var all []job
	if err == nil {
		err = json.Unmarshal(reply, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("query-block-jobs: %w", err)
	}
	for _, j := range all {
		if strings.HasPrefix(j.ID, own) {
			list = append(list, j)
		}
	}
	return list, nil
}

// countJobs returns the jobs and the number of jobs with the given status. It returns an error if a copy has
// failed.
func (s *Source) countJobs(ctx context.Context, status string) (list []job, count int, err error) {
	if list, err = s.copyJobs(ctx); err != nil {
		return nil, 0, err
	}
	for _, j := range list {
		switch {
		case j.failureText() != "":
			return nil, 0, fmt.Errorf("QEMU cannot copy the disks: %s", j.failureText())
		case j.Status == status:
			count++
		case j.Status == concluded:
			return nil, 0, errors.New("QEMU has ended the copy of a disk")
		}
	}
	if len(list) < len(s.copies) {
		return nil, 0, errors.New("QEMU has forgotten the copy of a disk")
	}
	return list, count, nil
}

// diskProgress publishes the progress of the copies, and reports whether all are in sync with the guest.
func (s *Source) diskProgress(ctx context.Context) (ready bool, err error) {
	list, count, err := s.countJobs(ctx, "ready")
	if err != nil {
		return false, err
	}
	s.far.DiskCopied, s.far.DiskTotal = 0, 0
	for _, j := range list {
		s.far.DiskCopied += j.Current
		s.far.DiskTotal += j.Total
	}
	s.publishProgress(s.far)
	return count == len(list), nil
}

// fallenBehind returns an error if a copy has failed while the memory is sent.
func (s *Source) fallenBehind(ctx context.Context) error {
	if len(s.copies) == 0 {
		return nil
	}
	_, err := s.diskProgress(ctx)
	return err
}

// endCopies ends the copies of a paused guest. The target then has all the guest's writes.
func (s *Source) endCopies(ctx context.Context) error {
	if len(s.copies) == 0 {
		return nil
	}
	switch _, count, err := s.countJobs(ctx, "ready"); {
	case err != nil:
		return err
	case count < len(s.copies):
		return errors.New("a disk is not in step with its copy any more")
	}
	for i := range s.copies {
		// A job in the state ready ends in sync when it is canceled without force.
		end := qmp.Command{Execute: "block-job-cancel", Arguments: members{"device": jobName(i)}}
		if err := runCommand(ctx, s.machine, end); err != nil {
			return err
		}
	}
	for {
		_, count, err := s.countJobs(ctx, concluded)
		if err != nil {
			return err
		}
		if count == len(s.copies) {
			break
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Millisecond):
		}
	}
	for i := range s.copies {
		for _, c := range []qmp.Command{
			{Execute: "job-dismiss", Arguments: members{"id": jobName(i)}},
			{Execute: "blockdev-del", Arguments: members{"node-name": nodeName(i)}},
		} {
			if err := runCommand(ctx, s.machine, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// dropCopies ends all copies, including an earlier runner's. It pauses the guest first: a job that ends while the
// guest writes to its disk frees memory that the write needs, and QEMU may crash. For the same reason an error
// only pauses a job. See docs/decisions/0147-copies-end-with-the-guest-paused.md.
func (s *Source) dropCopies(ctx context.Context) error {
	for paused := false; ; {
		list, err := s.copyJobs(ctx)
		if err == nil && len(list) > 0 && !paused {
			err = runCommand(ctx, s.machine, qmp.Command{Execute: "stop"}) // returns when all writes have ended
			paused = true
		}
		if err != nil {
			return err
		}
		for _, j := range list {
			c := qmp.Command{Execute: "block-job-cancel", Arguments: members{"device": j.ID, "force": true}}
			if j.Status == concluded {
				c = qmp.Command{Execute: "job-dismiss", Arguments: members{"id": j.ID}}
			}
			_, _ = s.machine.Command(ctx, c) // the job may be about to end; the loop asks again
		}
		if len(list) == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(endPause):
		}
	}
	var nodes []struct {
		Name string `json:"node-name"`
	}
	all := qmp.Command{Execute: "query-named-block-nodes", Arguments: members{"flat": true}}
	reply, err := s.machine.Command(ctx, all)
	if err == nil {
		err = json.Unmarshal(reply, &nodes)
	}
	for _, n := range nodes {
		if strings.HasPrefix(n.Name, own) {
			remove := qmp.Command{Execute: "blockdev-del", Arguments: members{"node-name": n.Name}}
			err = errors.Join(err, runCommand(ctx, s.machine, remove))
		}
	}
	return err
}
