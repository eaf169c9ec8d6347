package handover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"vmop/nbdexport"
	"vmop/qmp"
	"vmop/runner/migrate/link"
)

// exporter is QEMU's name of the socket by which the source writes disks.
const exporter = own + "server"

// makeImages makes what disks are copied to.
func (t *Target) makeImages(ctx context.Context) error {
	for i := range t.note.Images {
		if err := t.note.Images[i].Make(ctx); err != nil {
			return err
		}
	}
	return nil
}

// accepts is what the source needs to know of the disks and the screen.
func (t *Target) accepts() (a accepted) {
	for _, i := range t.note.Images {
		a.Copy = append(a.Copy, i.ID)
	}
	if t.cfg.Screen != nil {
		a.Screen = t.cfg.Screen()
	}
	return a
}

// export has QEMU take what the source writes to the images. The guest must not run meanwhile: its disks are QEMU's
// own then.
func (t *Target) export(ctx context.Context, m Machine) error {
	if len(t.note.Images) == 0 {
		return nil
	}
	l, err := listen(t.cfg.Socket)
	if err != nil {
		return fmt.Errorf("listen for the disks: %w", err)
	}
	l.SetUnlinkOnClose(false)
	defer l.Close() // QEMU has its own
	file, err := l.File()
	if err != nil {
		return err
	}
	defer file.Close()
	list := []qmp.Command{
		{Execute: "getfd", Arguments: members{"fdname": exporter}, File: file},
		{Execute: "nbd-server-start", Arguments: members{
			"addr": members{"type": "fd", "data": members{"str": exporter}},
		}},
	}
	for _, i := range t.note.Images {
		list = append(list, qmp.Command{Execute: "block-export-add", Arguments: members{
			"type": "nbd", "id": own + i.ID, "node-name": i.Node, "name": i.ID, "writable": true,
		}})
	}
	for _, c := range list {
		if err := command(ctx, m, c); err != nil {
			return err
		}
	}
	return nil
}

// carryDisk connects a stream of the source with QEMU.
func (t *Target) carryDisk(ctx context.Context, stream *link.Conn) {
	local, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: t.cfg.Socket, Net: "unix"})
	if err != nil {
		t.log.Debug("migration: no disk is copied now", "err", err)
		_ = stream.Close()
		return
	}
	if err := link.Carry(ctx, stream, local); err != nil && ctx.Err() == nil {
		t.log.Debug("migration: the stream of a disk has ended", "err", err)
	}
}

// endExport makes sure that all that was written to the images is on the disk, and that nothing more comes: the
// source has ended the copies before it has sent the rest of the guest.
func (t *Target) endExport(ctx context.Context, m Machine) error {
	if len(t.note.Images) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, replyTime)
	defer cancel()
	for _, i := range t.note.Images {
		conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: t.cfg.Socket, Net: "unix"})
		if err != nil {
			return err
		}
		until, _ := ctx.Deadline()
		if err := errors.Join(conn.SetDeadline(until), nbdexport.Flush(conn, i.ID)); err != nil {
			return err
		}
	}
	return command(ctx, m, qmp.Command{Execute: "nbd-server-stop"})
}

// settleImages makes the images the VM's own if the guest is here, and removes them if it never will be.
func (t *Target) settleImages(here bool) {
	if len(t.note.Images) > 0 {
		_ = ignoreAbsent(os.Remove(t.cfg.Socket))
	}
	for i := range t.note.Images {
		image := &t.note.Images[i]
		settle := image.Drop
		if here {
			settle = image.Keep
		}
		if err := settle(); err != nil {
			t.log.Error("migration: the image of a disk that was copied", "file", image.Path, "kept", here, "err", err)
		}
	}
}
