package nbdexport

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"vmop/confine"
	"vmop/process"
)

// Port is that of NBD (IANA).
const Port = 10809

const (
	// restartPause is between the end of qemu-nbd and its next start.
	restartPause = time.Second
	// settled is how long a qemu-nbd must have run for its end to be an accident: what is wrong with
	// disk, port or certificates ends it at once.
	settled = 2 * time.Second
	// grace is how long qemu-nbd may take to end when it is asked to. One that has just been started
	// forgets that it was.
	grace = 5 * time.Second
	// clients is how many connections there may be at once. One is the VM's; others are those that a
	// broken network has left, probes, and strangers, who don't get past the handshake.
	clients = 64
)

// Export is a disk that is served.
type Export struct {
	// Disk is a file or a block device. Its bytes are those of the disk, whatever they look like.
	Disk string
	// Name is that of the export, by which clients ask for it.
	Name string
	// TLS is a folder with the files CAFile, ServerCertificateFile and ServerKeyFile. Whoever has a
	// client's certificate of that authority may use the disk.
	TLS string
	// Address is where it listens; "" for 0.0.0.0.
	Address string
	Port    uint16
	// ReadOnly refuses writes. Any number of such exports of a disk may run at the same time.
	ReadOnly bool
}

// Run serves the disk until the context ends, which is no error. It waits for the lock of the disk
// first. An error says that qemu-nbd can't serve it.
func (e Export) Run(ctx context.Context, logger *slog.Logger) error {
	program, err := exec.LookPath("qemu-nbd")
	if err != nil {
		return fmt.Errorf("find qemu-nbd (Debian: package qemu-utils): %w", err)
	}
	disk, err := e.acquire(ctx, logger)
	if disk == nil {
		return err
	}
	defer func() { _ = disk.Close() }() // it has written nothing
	for {
		began := time.Now()
		p, err := process.Start(e.spec(program, disk), logger)
		if err != nil {
			return err
		}
		logger.Info("serving the disk", "disk", e.Disk, "export", e.Name, "pid", p.Pid(), "held", p.Held())
		select {
		case <-ctx.Done():
			return p.Terminate(context.WithoutCancel(ctx), grace)
		case <-p.Done():
		}
		if time.Since(began) < settled {
			return fmt.Errorf("serve %s: qemu-nbd ended: %s: %s", e.Disk, p.Exit(), strings.TrimSpace(p.Tail()))
		}
		logger.Warn("qemu-nbd ended, and is started again", "exit", p.Exit().String(), "err", p.Tail())
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(restartPause):
		}
	}
}

func (e Export) spec(program string, disk *os.File) process.Spec {
	return process.Spec{
		Name: "qemu-nbd", Path: program, Dir: "/", Args: e.args(disk),
		Env:   []string{"LC_ALL=C", "PATH=/usr/bin:/bin"},
		Files: []*os.File{disk}, // the lock lives as long as one of us
		Rules: e.rules(program),
	}
}

// args are those of qemu-nbd.
func (e Export) args(disk *os.File) []string {
	driver := "file"
	if isDevice(disk) {
		driver = "host_device"
	}
	args := []string{
		"--object", "tls-creds-x509,id=tls,endpoint=server,verify-peer=on,dir=" + escaped(e.TLS), "--tls-creds", "tls",
		"--object", "authz-simple,id=client,identity=CN=" + clientName, "--tls-authz", "client",
		"--bind", cmp.Or(e.Address, "0.0.0.0"), "--port", strconv.Itoa(int(e.Port)),
		"--export-name", e.Name, "--persistent", "--shared", strconv.Itoa(clients), "--discard", "unmap",
	}
	if direct(e.Disk) {
		args = append(args, "--cache", "none")
	}
	if e.ReadOnly {
		args = append(args, "--read-only")
	}
	return append(args, "--image-opts", "driver=raw,file.driver="+driver+",file.filename="+escaped(e.Disk))
}

// escaped is a text in an option of QEMU.
func escaped(text string) string { return strings.ReplaceAll(absolute(text), ",", ",,") }

func absolute(name string) string {
	if abs, err := filepath.Abs(name); err == nil {
		return abs
	}
	return name
}

// direct reports whether the disk can be read and written past the host's cache, which the guest
// has one of its own of.
func direct(name string) bool {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	return unix.Close(fd) == nil
}

// rules are what qemu-nbd may use.
func (e Export) rules(program string) *confine.Rules {
	access := confine.Write
	if e.ReadOnly {
		access = confine.Read
	}
	return &confine.Rules{
		Paths: append(confine.Programs(),
			confine.Path{Name: program, Access: confine.Read},
			confine.Path{Name: "/etc/gnutls", Access: confine.Read},
			confine.Path{Name: absolute(e.TLS), Access: confine.Read},
			confine.Path{Name: absolute(e.Disk), Access: access}),
		Listen: confine.Ports{}.With(e.Port),
	}
}

// open opens the disk. Of a block device that another process has opened so, or that is mounted, the
// kernel says that it is busy (EBUSY), in whichever container.
func (e Export) open() (*os.File, error) {
	info, err := os.Stat(e.Disk)
	if err != nil {
		return nil, fmt.Errorf("open the disk: %w", err)
	}
	flags := os.O_RDWR
	if e.ReadOnly {
		flags = os.O_RDONLY
	}
	switch mode := info.Mode(); {
	case mode.IsRegular():
	case mode&os.ModeDevice == 0 || mode&os.ModeCharDevice != 0:
		return nil, fmt.Errorf("open the disk: %s is neither a file nor a block device", e.Disk)
	case !e.ReadOnly:
		flags |= unix.O_EXCL
	}
	f, err := os.OpenFile(e.Disk, flags, 0)
	if err != nil {
		return nil, fmt.Errorf("open the disk: %w", err)
	}
	return f, nil
}

func isDevice(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeDevice != 0
}
