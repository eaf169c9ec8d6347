package main

import (
	"context"
	"crypto/md5"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/diskimage/nbd"
	"vmop/runner/control"
	"vmop/runner/status"
	"vmop/test/invariants"
	"vmop/test/ports"
	"vmop/test/tier"
	"vmop/test/wait"
)

// exported serves an image over NBD as long as the test runs, and returns a drive for it. It creates a folder of
// certificates in dir.
func exported(t *testing.T, image, serial, dir string) (drive string) {
	t.Helper()
	now := time.Now()
	authority, err := nbd.NewAuthority("vm", now)
	require.NoError(t, err)
	server, err := authority.Server(nil, []net.IP{net.IPv4(127, 0, 0, 1)}, now)
	require.NoError(t, err)
	client, err := authority.Client(now)
	require.NoError(t, err)
	of := t.TempDir()
	for name, text := range map[string][]byte{
		of + "/" + nbd.CAFile:                 authority.Certificate,
		of + "/" + nbd.ServerCertificateFile:  server.Certificate,
		of + "/" + nbd.ServerKeyFile:          server.Key,
		dir + "/" + nbd.CAFile:                authority.Certificate,
		dir + "/" + nbd.ClientCertificateFile: client.Certificate,
		dir + "/" + nbd.ClientKeyFile:         client.Key,
	} {
		require.NoError(t, os.WriteFile(name, text, 0o600))
	}
	e := nbd.Export{Disk: image, Name: "disk", TLS: of, Address: "127.0.0.1", Port: uint16(ports.Reserve(t))}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = e.Run(ctx, slog.New(slog.DiscardHandler))
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return fmt.Sprintf("{serial: %s, nbd: {host: 127.0.0.1, port: %d, export: disk, tls: %s}}", serial, e.Port, dir)
}

// drives changes the drives in the configuration of a folder.
func drives(t *testing.T, dir string, list ...string) {
	t.Helper()
	file := filepath.Join(dir, "config.yaml")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	changed := "drives: [" + strings.Join(list, ", ") + "]"
	changed = regexp.MustCompile(`drives: .*`).ReplaceAllLiteralString(string(text), changed)
	require.NoError(t, os.WriteFile(file, []byte(changed), 0o600))
}

// attachedDrives waits until the disks of the VM in a folder are attached.
func attachedDrives(t *testing.T, dir string, count int) (s status.Status) {
	t.Helper()
	wait.Until(t, func() bool {
		client, err := control.Dial(t.Context(), filepath.Join(dir, "run", control.SocketName))
		if err != nil {
			return false
		}
		s, err = client.Status(t.Context())
		return err == nil && len(s.Drives) == count && !slices.ContainsFunc(s.Drives, func(d status.Drive) bool {
			return d.State != status.DriveAttached
		})
	}, "%+v", s.Drives)
	return s
}

// records makes the guest write records to the disk with a serial number, one after the other, without end. A device
// appears in /sys before its node exists, for which dd would create a file.
const records = `(until for b in /sys/block/vd*; do [ "$(cat $b/serial)" = %[1]s ] && D=/dev/${b##*/}; done; ` +
	`[ -b "$D" ]; do usleep 50000; done; i=0; while :; do i=$((i+1)); echo $i $(echo $i | md5sum) | ` +
	`dd of=$D bs=512 seek=$i conv=fsync 2>/dev/null && echo %[1]s wrote $i >/dev/console; done) &`

// attached is a VM with a guest that writes to disks that were attached while it runs: in a file that both sides use,
// in a file that is copied, and on a server.
type attached struct {
	*journey

	common, served, far, certificates string
}

var serials = []string{"common", "copied", "served"}

// beginAttached starts the VM, and a runner that waits for its guest.
func beginAttached(t *testing.T) *attached {
	t.Helper()
	common, served := filepath.Join(t.TempDir(), "common"), filepath.Join(t.TempDir(), "served")
	require.NoError(t, os.WriteFile(served, make([]byte, 1<<20), 0o600))
	certificates := t.TempDir()
	far := exported(t, served, "served", certificates)
	a := &attached{&journey{t: t, receiveArgs: []string{"--copy-disks"}}, common, served, far, certificates}
	a.fromDir = a.folder()
	a.sending = booted(t, a.fromDir, "--log-level", "debug")
	from := console(t, a.fromDir)
	from.await(`TINY \S+ READY`)
	a.attach(a.fromDir)
	attachedDrives(t, a.fromDir, len(serials))
	for _, serial := range serials {
		from.typeLine("sh " + fmt.Sprintf(records, serial))
		from.await(serial + ` wrote \d+`)
	}
	require.NoError(t, from.conn.Close()) // only one console at a time is possible
	a.awaits()
	return a
}

// folder returns a new folder of the VM, without the disks.
func (a *attached) folder() string {
	a.t.Helper()
	dir := folder(a.t, "standard", append(tiny(a.t, ""), "drives: []")...)
	rewrite(a.t, dir, "  vm:\n", "  nbdCertificates: "+a.certificates+"\n  vm:\n")
	return dir
}

// attach adds the disks to the configuration of a folder.
func (a *attached) attach(dir string) {
	a.t.Helper()
	drives(a.t, dir, "{file: "+a.common+", size: 1 MiB, serial: common}",
		"{file: "+dir+"/copied, size: 1 MiB, serial: copied}", a.far)
}

// awaits starts a runner in a new folder that waits for the guest.
func (a *attached) awaits() {
	a.t.Helper()
	a.toDir = a.folder()
	a.attach(a.toDir)
	a.expects()
}

// goesOn requires that the guest of a folder still writes to all disks.
func (a *attached) goesOn(dir string) {
	a.t.Helper()
	c := console(a.t, dir)
	for _, serial := range serials {
		c.await(serial + ` wrote \d+`)
	}
	require.NoError(a.t, c.conn.Close())
}

// hasAll requires that the ended guest of a folder has neither lost a record nor written one twice in different places.
func (a *attached) hasAll(dir string) {
	a.t.Helper()
	for i, disk := range []string{a.common, filepath.Join(dir, "copied"), a.served} {
		text, err := os.ReadFile(disk)
		require.NoError(a.t, err)
		n := 0
		for at := 512; at < len(text) && text[at] != 0; at += 512 {
			n++
			line := strings.TrimRight(string(text[at:at+512]), "\x00")
			require.Equal(a.t, fmt.Sprintf("%d %x -\n", n, md5.Sum([]byte(strconv.Itoa(n)+"\n"))), line, serials[i])
		}
		require.Greater(a.t, n, 1, serials[i])
		require.Equal(a.t, len(text)-512*(n+1), strings.Count(string(text[512*(n+1):]), "\x00"), "all is in order")
	}
}

// Disks that were attached to a running guest move with it, wherever they are stored, and stay attached for the next
// runner.
func TestAttachedDisksAreMigrated(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	a := beginAttached(t)
	a.moves()
	a.goesOn(a.toDir)
	s := attachedDrives(t, a.toDir, len(serials))
	require.Empty(t, s.RestartAwaitingChanges)
	require.Empty(t, s.Problems)

	next := a.receiving
	for _, spoilt := range []bool{false, true} {
		next.kill()
		if spoilt { // it is created again
			require.NoError(t, os.Truncate(filepath.Join(a.toDir, "run", "machine.json"), 0))
		}
		next = adopted(t, a.toDir)
		s = attachedDrives(t, a.toDir, len(serials))
		require.Empty(t, s.RestartAwaitingChanges)
		require.Empty(t, s.Problems)
	}
	a.goesOn(a.toDir)
	next.ends()
	a.hasAll(a.toDir)
	invariants.NothingLeft(t, a.toDir)
	invariants.NothingLeft(t, a.fromDir)
}

// Either runner may be killed: exactly one guest writes to the disks, and no data is lost.
func TestARunnerIsKilledWhileAttachedDisksAreMigrated(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	a := beginAttached(t)
	for i, c := range []killMoment{
		{"source", `event=Copied`}, {"target", `command="device_add`}, {"target", `"heard Go"`},
	} {
		if i > 0 {
			a.awaits()
		}
		there := a.killsOne(c.side, c.at)
		t.Log(c.at, "the guest is at the target:", there)
		if there {
			a.fromDir, a.sending = a.toDir, a.receiving
		}
		a.goesOn(a.fromDir)
		attachedDrives(t, a.fromDir, len(serials))
	}
	a.sending.ends()
	a.hasAll(a.fromDir)
}
