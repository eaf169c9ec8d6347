package inventory

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/snapshot"
	"vmop/runner/status"
	"vmop/test/wait"
)

// served has qemu-nbd serve an image, and returns a drive of it.
func served(t *testing.T, serial, image string) (drive string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	server := exec.CommandContext(t.Context(), "qemu-nbd", "--persistent", "--format=raw", "--bind=127.0.0.1",
		"--port="+port, "--export-name=disk", image)
	require.NoError(t, server.Start(), "Debian: package qemu-utils")
	t.Cleanup(func() { _ = server.Wait() }) // the context has ended it
	wait.Until(t, func() bool {
		conn, err := net.Dial("tcp", address)
		return err == nil && conn.Close() == nil
	})
	return fmt.Sprintf("- {serial: %s, nbd: {host: 127.0.0.1, port: %s, export: disk}}\n", serial, port)
}

// attached waits until a VM that runs has attached a disk.
func (h *here) attached(name, serial string) {
	h.t.Helper()
	wait.Until(h.t, func() bool {
		return slices.ContainsFunc(h.find(name).Status.Drives, func(d status.Drive) bool {
			return d.Name == serial && d.State == status.DriveAttached
		})
	}, "the disk %s is not attached", serial)
}

// names returns what disks a snapshot has.
func names(d snapshot.Description) (list []string) {
	for _, p := range d.Parts {
		if p.Kind == snapshot.Disk {
			list = append(list, p.Name)
		}
	}
	return list
}

// A snapshot omits the disks of NBD servers, and says so, whether the VM is running or not. A file that
// was attached while it is running is not omitted: there is no snapshot then.
func TestASnapshotOmitsDisksOfServers(t *testing.T) {
	t.Parallel()
	h := newHere(t).withProgram()
	ctx := t.Context()
	local, late := h.disk("local", 1), h.disk("late", 1)
	far := served(t, "far", h.disk("remote", 1))
	configured := text("web", boots(t, local)+far)
	file, _, err := h.Create(ctx, "web", false, configured, "")
	require.NoError(t, err)
	list, err := h.Disks(ctx, "web")
	require.NoError(t, err)
	require.Regexp(t, `^nbd://127\.0\.0\.1:\d+/disk$`, list[1].File)
	require.False(t, list[1].Missing)
	require.ErrorContains(t, h.ExportDisk(ctx, "web", "far", h.dir+"/x", "raw"), "127.0.0.1's, an NBD server")

	d, err := h.CreateSnapshot(ctx, "web", "never-started", true, quiet)
	require.NoError(t, err)
	require.Equal(t, []string{"local"}, names(d))
	require.Equal(t, []string{"far"}, d.Omitted)

	require.NoError(t, h.Start(ctx, "web"))
	h.console("web")
	h.attached("web", "far")
	d, err = h.CreateSnapshot(ctx, "web", "running", false, quiet)
	require.NoError(t, err)
	require.Equal(t, []string{"local"}, names(d))
	require.Equal(t, []string{"far"}, d.Omitted)

	require.NoError(t, os.WriteFile(file, text("web", boots(t, local, late)+far), 0o600))
	h.attached("web", "late")
	_, err = h.CreateSnapshot(ctx, "web", "more", false, quiet)
	require.ErrorContains(t, err, "the disk late (")
	require.ErrorContains(t, err, snapshot.ErrAttached.Error())
	h.stopped("web")

	_, err = h.CloneSnapshot(ctx, "web", "running", "copy", quiet)
	require.ErrorContains(t, err, "vm.drives[1] is a disk of an NBD server")
	require.NoError(t, os.WriteFile(file, configured, 0o600))
	before, err := os.ReadFile(local)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(local, make([]byte, 1<<20), 0o600))
	require.NoError(t, h.RestoreSnapshot(ctx, "web", "running", false, quiet))
	after, err := os.ReadFile(local)
	require.NoError(t, err)
	require.Equal(t, before, after)
}
