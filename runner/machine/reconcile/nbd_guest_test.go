package reconcile_test

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/diskimage/nbd"
	"vmop/runner/machine/reconcile"
	"vmop/test/ports"
	"vmop/test/wait"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// diskServer is a qemu-nbd that can be stopped and restarted.
type diskServer struct {
	t      *testing.T
	export nbd.Export
	client string // the folder with the client's certificates
	end    func()
}

func newDiskServer(t *testing.T, image string) *diskServer {
	t.Helper()
	now := time.Now()
	authority, err := nbd.NewAuthority("vm", now)
	require.NoError(t, err)
	server, err := authority.Server(nil, []net.IP{net.IPv4(127, 0, 0, 1)}, now)
	require.NoError(t, err)
	client, err := authority.Client(now)
	require.NoError(t, err)
	s := &diskServer{t: t, client: t.TempDir(), end: func() {}}
	dir := t.TempDir()
	for name, text := range map[string][]byte{
		dir + "/" + nbd.CAFile:                     authority.Certificate,
		dir + "/" + nbd.ServerCertificateFile:      server.Certificate,
		dir + "/" + nbd.ServerKeyFile:              server.Key,
		s.client + "/" + nbd.CAFile:                authority.Certificate,
		s.client + "/" + nbd.ClientCertificateFile: client.Certificate,
		s.client + "/" + nbd.ClientKeyFile:         client.Key,
	} {
		require.NoError(t, os.WriteFile(name, text, 0o600))
	}
	s.export = nbd.Export{Disk: image, Name: "disk", TLS: dir, Address: "127.0.0.1", Port: uint16(ports.Reserve(t))}
	t.Cleanup(func() { s.end() })
	return s
}

// startServer starts the server and waits until it answers.
func (s *diskServer) startServer() {
	s.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.export.Run(ctx, slog.New(slog.DiscardHandler)) }()
	s.end = func() {
		stop()
		<-ended
		s.end = func() {}
	}
	wait.Until(s.t, func() bool { return nbd.Probe(ctx, s.nbd(), time.Minute) == nil })
}

func (s *diskServer) nbd() vmspec.NBD {
	return vmspec.NBD{Host: "127.0.0.1", Port: int(s.export.Port), Export: "disk", TLS: s.client}
}

func (s *diskServer) drive(index int, serial string) reconcile.Drive {
	return reconcile.Drive{Index: index, Drive: vmspec.Drive{
		Type: vmspec.DriveRaw, Format: "raw", Serial: serial, NBD: new(s.nbd()),
	}}
}

// A machine without free slots reports it, and a disk that QEMU may not use isn't tried.
func TestADiskOfANBDServerThatCannotBe(t *testing.T) {
	t.Parallel()
	s := newDiskServer(t, filepath.Join(t.TempDir(), "none"))
	l := startQEMU(t, reconcile.Start{}, plan.Rules{})
	l.want.Drives = []reconcile.Drive{s.drive(2, "data")}
	f := l.complains("vm.drives[2]: the machine has no places")
	require.Equal(t, []string{"data Failed"}, states(f))
	l.want.Drives[0].Denied = "QEMU may not"
	l.complains("vm.drives[2]: QEMU may not")
	require.Empty(t, l.said)
}
