package nbdexport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"vmop/confine"
	"vmop/process"
)

// server is the program that serves.
const server = "qemu-storage-daemon"

const (
	// restartPause is between the end of the server and its next start.
	restartPause = time.Second
	// settled is how long a server must have run for its end to be an accident: what is wrong with
	// disk or certificates ends it at once.
	settled = 2 * time.Second
	// grace is how long the server may take to end when it is asked to.
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
// first. An error says that it can't be served.
func (e Export) Run(ctx context.Context, logger *slog.Logger) error {
	program, err := exec.LookPath(server)
	if err != nil {
		return fmt.Errorf("find %s (Debian: package qemu-system-common): %w", server, err)
	}
	disk, err := e.acquire(ctx, logger)
	if disk == nil {
		return err
	}
	defer func() { _ = disk.Close() }() // it has written nothing
	for {
		began := time.Now()
		p, err := e.start(context.WithoutCancel(ctx), program, disk, logger)
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
			return fmt.Errorf("serve %s: %s ended: %s: %s", e.Disk, server, p.Exit(), strings.TrimSpace(p.Tail()))
		}
		logger.Warn(server+" ended, and is started again", "exit", p.Exit().String(), "err", p.Tail())
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(restartPause):
		}
	}
}

// start starts the server, which listens already.
func (e Export) start(ctx context.Context, program string, disk *os.File, logger *slog.Logger) (
	*process.Process, error,
) {
	socket, err := e.listen(ctx)
	if err != nil {
		return nil, fmt.Errorf("serve %s: %w", e.Disk, err)
	}
	defer func() { _ = socket.Close() }() // the server's stays
	return process.Start(process.Spec{
		Name: server, Path: program, Dir: "/", Args: e.args(disk),
		Env: []string{
			"LC_ALL=C", "PATH=/usr/bin:/bin",
			// The memory of large requests is kept: to get it anew takes as long as to encrypt it.
			"MALLOC_MMAP_THRESHOLD_=33554432", "MALLOC_TRIM_THRESHOLD_=67108864",
		},
		Files: []*os.File{socket, disk}, // the disk's lock lives as long as one of us
		Rules: e.rules(program),
	}, logger)
}

// listen makes the server's socket. QEMU before 8.1 leaves one as it is: the kernel then holds an answer
// back until the client has acknowledged the one before, which takes 40 ms.
func (e Export) listen(ctx context.Context) (*os.File, error) {
	config := net.ListenConfig{Control: func(_, _ string, socket syscall.RawConn) error {
		var err error
		failed := socket.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) // what is accepted inherits it
		})
		return errors.Join(failed, err)
	}}
	config.SetMultipathTCP(false)
	l, err := config.Listen(ctx, "tcp", net.JoinHostPort(cmp.Or(e.Address, "0.0.0.0"), strconv.Itoa(int(e.Port))))
	if err != nil {
		return nil, err
	}
	defer func() { _ = l.Close() }()
	return l.(*net.TCPListener).File()
}

// args are those of the server.
func (e Export) args(disk *os.File) []string {
	driver := "file"
	if isDevice(disk) {
		driver = "host_device"
	}
	node := "driver=raw,node-name=disk,discard=unmap,file.discard=unmap,file.driver=" + driver +
		",file.filename=" + escaped(e.Disk)
	if direct(e.Disk) {
		node += ",cache.direct=on,file.cache.direct=on,file.aio=native"
	}
	export := "type=nbd,id=disk,node-name=disk,name=" + strings.ReplaceAll(e.Name, ",", ",,")
	if e.ReadOnly {
		node += ",read-only=on"
	} else {
		export += ",writable=on"
	}
	return []string{
		"--object", "tls-creds-x509,id=tls,endpoint=server,verify-peer=on,dir=" + escaped(e.TLS),
		"--object", "authz-simple,id=client,identity=CN=" + clientName,
		"--blockdev", node,
		"--nbd-server", "addr.type=fd,addr.str=3,tls-creds=tls,tls-authz=client,max-connections=" + strconv.Itoa(clients),
		"--export", export,
	}
}

// escaped is a path in an option of QEMU.
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

// rules are what the server may use.
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
