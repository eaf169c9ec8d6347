package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"vmop/diskimage"
	"vmop/qmp"
	"vmop/runner/prepare"
	"vmop/runner/status"
)

// Times.
const (
	freezeTime = 30 * time.Second // until the guest is thawed, if QEMU doesn't answer
	thawTime   = 30 * time.Second // for the answer
	pollTime   = 200 * time.Millisecond
	clearTime  = 30 * time.Second // to end QEMU's work for a snapshot
)

// A Machine is a running VM. *drive.Driver implements it, and documents the methods.
type Machine interface {
	Command(ctx context.Context, c qmp.Command) (json.RawMessage, error)
	Freeze(ctx context.Context, limit time.Duration) (status.FreezeAnswer, error)
	Thaw(ctx context.Context) (status.FreezeAnswer, error)
}

// ErrBusy reports that a snapshot of the VM is already being created.
var ErrBusy = errors.New("a snapshot of this VM is already being created")

// Live creates snapshots of a running VM, for its runner. Its methods may be called concurrently.
type Live struct {
	VM      *prepare.VM
	Machine Machine
	Log     *slog.Logger

	busy sync.Mutex
}

// Create creates a snapshot. If freeze is true and it is possible, the guest's file systems are frozen for that
// moment; the description contains the result. If ctx ends before the snapshot is complete, or the copy fails,
// the snapshot is removed. Create calls tell often.
func (l *Live) Create(ctx context.Context, name string, freeze bool, tell func(Progress)) (d Description, err error) {
	if !l.busy.TryLock() {
		return d, ErrBusy
	}
	defer l.busy.Unlock()
	if err := l.clearJobs(ctx); err != nil {
		return d, err
	}
	parts, err := Parts(l.VM)
	if err != nil {
		return d, err
	}
	var images []Part
	for _, p := range parts {
		if p.Kind.isImage() {
			images = append(images, p)
		}
	}
	var devices []device
	if err := l.queryQMP(ctx, qmp.Command{Execute: "query-block"}, &devices); err != nil {
		return d, err
	}
	omitted, err := checkComplete(devices, l.VM.Plan)
	if err != nil {
		return d, err
	}
	nodes, err := l.blockNodes(ctx)
	if err != nil {
		return d, err
	}
	if images, err = sizesOf(nodes, images); err != nil {
		return d, err
	}
	b, err := beginSnapshot(l.VM, name, time.Now())
	if err != nil {
		return d, err
	}
	b.Running, b.Omitted = true, omitted
	err = l.copyParts(ctx, b, images, parts, freeze, tell)
	if cleared := l.clearJobs(context.WithoutCancel(ctx)); err == nil { // this also closes the images
		err = cleared
	}
	for _, p := range b.Parts {
		if err == nil && p.Kind.isImage() {
			err = trimReserve(b.storedPath(p.Stored))
		}
	}
	if err != nil {
		return d, b.abandonBuild(fmt.Errorf("create the snapshot %s: %w", name, err))
	}
	return b.finishBuild()
}

// copyParts makes QEMU copy the images, and copies the other parts.
func (l *Live) copyParts(ctx context.Context, b *build, images, parts []Part, freeze bool, tell func(Progress)) error {
	for i, p := range images {
		p.Stored, p.StoredFormat = p.Stored+".qcow2", "qcow2"
		if err := l.addTarget(ctx, b, i, p); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		b.Parts = append(b.Parts, p)
	}
	if err := l.beginCopies(ctx, b, images, parts, freeze); err != nil {
		return err
	}
	for {
		var jobs []job
		if err := l.queryQMP(ctx, qmp.Command{Execute: "query-jobs"}, &jobs); err != nil {
			return err
		}
		p, over, err := judgeJobs(jobs, len(images))
		if over || err != nil {
			return err
		}
		tell(p)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pollTime):
		}
	}
}

// beginCopies starts the copies, with the guest's file systems frozen if that is possible.
func (l *Live) beginCopies(ctx context.Context, b *build, images, parts []Part, freeze bool) (err error) {
	frozen := status.FreezeAnswer{Message: "not frozen: crash-consistent, as was requested"}
	if freeze {
		if frozen, err = l.Machine.Freeze(ctx, freezeTime); err != nil {
			return err
		}
	}
	thaw := func() error {
		if !frozen.Frozen {
			return nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), thawTime)
		defer cancel()
		_, err := l.Machine.Thaw(ctx)
		if err != nil {
			l.Log.Warn("the guest's file systems are not thawed yet", "err", err)
		}
		return nil
	}
	_, err = l.Machine.Command(ctx, backupCommand(images))
	for _, p := range parts {
		if err == nil && !p.Kind.isImage() {
			err = b.copyState(ctx, p)
		}
	}
	b.Frozen, b.Message = frozen.Frozen, frozen.Message
	if until := frozen.Until; b.Frozen && until != nil && time.Now().After(*until) {
		b.Frozen, b.Message = false, "crash-consistent, because QEMU answered only after the guest's file systems were thawed"
	}
	return errors.Join(err, thaw())
}

// addTarget creates the image that a part is copied into, and passes QEMU a descriptor of it, because the kernel
// prevents QEMU from opening it.
func (l *Live) addTarget(ctx context.Context, b *build, i int, p Part) error {
	path := b.storedPath(p.Stored)
	if err := diskimage.CreateQCOW2(ctx, path, p.Size); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := reserveRoom(file, p); err != nil {
		return err
	}
	var added struct {
		Set int64 `json:"fdset-id"`
	}
	add := qmp.Command{Execute: "add-fd", Arguments: members{"opaque": own + p.Stored}, File: file}
	if err := l.queryQMP(ctx, add, &added); err != nil {
		return err
	}
	_, err = l.Machine.Command(ctx, addTarget(i, added.Set))
	return err
}

// reserveRoom allocates room for a copy. Without it, the guest would have to wait when it overwrites data that can't
// be copied. Zeros need no room. If the file system doesn't support it, QEMU detects missing room.
func reserveRoom(file *os.File, p Part) error {
	need, err := dataOf(p)
	if err != nil {
		return err
	}
	const tables = 2 << 20
	err = unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, need+need>>10+tables)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("there is no room for a copy of %s: %w", diskimage.Size(need), err)
	}
	return nil
}

// dataOf returns the largest number of bytes of an image that must be copied.
func dataOf(p Part) (need int64, err error) {
	file, err := os.OpenFile(p.Path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	var s unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &s); err != nil {
		return 0, err
	}
	if s.Mode&unix.S_IFMT != unix.S_IFREG {
		return p.Size, nil
	}
	if p.Format != "raw" {
		return s.Blocks * 512, nil // the unit of st_blocks
	}
	for at := int64(0); at < s.Size; {
		data, err := unix.Seek(int(file.Fd()), at, unix.SEEK_DATA)
		if err != nil {
			break // no more data
		}
		hole, err := unix.Seek(int(file.Fd()), data, unix.SEEK_HOLE)
		if err != nil {
			return 0, err
		}
		from, to := max(data/block*block, at), (hole+block-1)/block*block
		need, at = need+to-from, to
	}
	return need, nil
}

// trimReserve releases reserved but unused room.
func trimReserve(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	const all = 1 << 50
	_ = unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, info.Size(), all)
	return file.Truncate(info.Size()) // for file systems that can't punch holes beyond the end
}

// CleanUp ends snapshots that an earlier runner has started in QEMU, and removes their files.
func (l *Live) CleanUp(ctx context.Context) {
	l.busy.Lock()
	defer l.busy.Unlock()
	err := l.clearJobs(ctx)
	if err == nil {
		err = removeLeftovers(l.VM.DataDir)
	}
	if err != nil {
		l.Log.Warn("a snapshot that an earlier runner has begun is not ended; the next snapshot tries again", "err", err)
	}
}

// clearJobs ends the jobs, and removes the nodes and descriptors of snapshots.
func (l *Live) clearJobs(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, clearTime)
	defer cancel()
	err := l.endJobs(ctx)
	if err == nil {
		err = l.removeNodes(ctx)
	}
	if err != nil {
		return fmt.Errorf("end what QEMU does for a snapshot: %w", err)
	}
	return nil
}

func (l *Live) endJobs(ctx context.Context) error {
	cancelled := map[string]bool{}
	for {
		var jobs []job
		if err := l.queryQMP(ctx, qmp.Command{Execute: "query-jobs"}, &jobs); err != nil {
			return err
		}
		left := false
		for _, j := range jobs {
			if !j.isOwn() {
				continue
			}
			do := "job-cancel"
			if j.isConcluded() {
				do = "job-dismiss"
			} else if left = true; cancelled[j.ID] {
				continue
			}
			cancelled[j.ID] = true
			_, err := l.Machine.Command(ctx, qmp.Command{Execute: do, Arguments: members{"id": j.ID}})
			if refused := new(qmp.Error); err != nil && !errors.As(err, &refused) { // the job may be over by now
				return err
			}
		}
		if !left {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pollTime / 10):
		}
	}
}

func (l *Live) removeNodes(ctx context.Context) error {
	nodes, err := l.blockNodes(ctx)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if !strings.HasPrefix(n.Name, own) {
			continue
		}
		del := qmp.Command{Execute: "blockdev-del", Arguments: members{"node-name": n.Name}}
		if _, err := l.Machine.Command(ctx, del); err != nil {
			return err
		}
	}
	var sets []struct {
		ID  int64 `json:"fdset-id"`
		FDs []struct {
			Opaque string `json:"opaque"`
		} `json:"fds"`
	}
	if err := l.queryQMP(ctx, qmp.Command{Execute: "query-fdsets"}, &sets); err != nil {
		return err
	}
	for _, s := range sets {
		if len(s.FDs) == 0 || !strings.HasPrefix(s.FDs[0].Opaque, own) {
			continue
		}
		_, err := l.Machine.Command(ctx, qmp.Command{Execute: "remove-fd", Arguments: members{"fdset-id": s.ID}})
		if err != nil {
			return err
		}
	}
	return nil
}

// blockNodes returns QEMU's block nodes.
func (l *Live) blockNodes(ctx context.Context) (list []node, err error) {
	err = l.queryQMP(ctx, qmp.Command{Execute: "query-named-block-nodes", Arguments: members{"flat": true}}, &list)
	return list, err
}

// queryQMP runs a command and decodes its result.
func (l *Live) queryQMP(ctx context.Context, c qmp.Command, into any) error {
	reply, err := l.Machine.Command(ctx, c)
	if err == nil {
		err = json.Unmarshal(reply, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.Execute, err)
	}
	return nil
}
