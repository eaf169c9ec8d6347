package handover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"vmop/diskimage/nbd"
	"vmop/qmp"
	"vmop/runner/migrate/link"
)

// exporter is QEMU's name of the socket for the source's writes to disks.
const exporter = own + "server"

// makeImages creates the images for the copies of disks.
func (t *Target) makeImages(ctx context.Context) error {
	for i := range t.note.Images {
		if err := t.note.Images[i].Make(ctx); err != nil {
			return err
		}
	}
	return nil
}

// acceptedParts returns the target's disks and screen, for the source.
func (t *Target) acceptedParts() (a accepted) {
	for _, i := range t.note.Images {
		a.Copy = append(a.Copy, i.ID)
	}
	if t.cfg.Screen != nil {
		a.Screen = t.cfg.Screen()
	}
	return a
}

// exportImages makes QEMU write the source's data to the images. The guest must not run until endExport, because it
// uses the same images.
func (t *Target) exportImages(ctx context.Context, m Machine) error {
	if len(t.note.Images) == 0 {
		return nil
	}
	l, err := listenAt(t.cfg.Socket)
	if err != nil {
		return fmt.Errorf("listen for the disks: %w", err)
	}
	l.SetUnlinkOnClose(false)
	defer l.Close() // QEMU has its own descriptor
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
		if err := runCommand(ctx, m, c); err != nil {
			return err
		}
	}
	return nil
}

// carryDisk connects a stream of the source to QEMU.
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

// endExport flushes the images to disk and stops the NBD server. The source ended its copies before it sent the
// rest of the guest, so no further writes can arrive.
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
		if err := errors.Join(conn.SetDeadline(until), nbd.Flush(conn, i.ID)); err != nil {
			return err
		}
	}
	return runCommand(ctx, m, qmp.Command{Execute: "nbd-server-stop"})
}

// settleImages gives the images to the VM if the guest is here, and removes them if it will never be here.
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
			t.log.Error("migration: the image of a copied disk", "file", image.Path, "kept", here, "err", err)
		}
	}
}
