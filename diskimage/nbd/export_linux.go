package nbd

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

	"vmop/internal/childprocess"
	"vmop/internal/confine"
)

// server is the NBD server program.
const server = "qemu-storage-daemon"

const (
	// restartPause is the time between the end of the server and its next start.
	restartPause = time.Second
	// settled is the minimum running time of a server. The end of a server that ran longer counts as an accident. An
	// invalid disk or certificate ends the server immediately.
	settled = 2 * time.Second
	// grace is the time for the server to end when asked to.
	grace = 5 * time.Second
	// clients is the maximum number of connections. The VM uses one. The others are left over from a broken network,
	// probes, and strangers, who don't get past the handshake.
	clients = 64
)

// Export describes a disk to serve.
type Export struct {
	// Disk is a file or a block device. Its bytes are always treated as raw.
	Disk string
	// Name is the export name that clients request.
	Name string
	// TLS is a folder with the files CAFile, ServerCertificateFile and ServerKeyFile. Every holder of a client
	// certificate of that authority can use the disk.
	TLS string
	// Address is the address to listen on; "" means 0.0.0.0.
	Address string
	Port    uint16
	// ReadOnly refuses writes. Any number of read-only exports of a disk can run at the same time.
	ReadOnly bool
}

// Run serves the disk until the context ends, and then returns nil. It first waits for the lock of the disk. It
// returns an error if the disk can't be served.
func (e Export) Run(ctx context.Context, logger *slog.Logger) error {
	program, err := exec.LookPath(server)
	if err != nil {
		return fmt.Errorf("find %s (Debian: package qemu-system-common): %w", server, err)
	}
	disk, err := e.acquireDisk(ctx, logger)
	if disk == nil {
		return err
	}
	defer func() { _ = disk.Close() }() // this process has written no data
	for {
		began := time.Now()
		p, err := e.startServer(context.WithoutCancel(ctx), program, disk, logger)
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

// startServer starts the server on a socket that already listens.
func (e Export) startServer(ctx context.Context, program string, disk *os.File, logger *slog.Logger) (
	*childprocess.Process, error,
) {
	socket, err := e.listenForQEMU(ctx)
	if err != nil {
		return nil, fmt.Errorf("serve %s: %w", e.Disk, err)
	}
	defer func() { _ = socket.Close() }() // the server keeps its copy
	return childprocess.Start(childprocess.Spec{
		Name: server, Path: program, Dir: "/", Args: e.serverArguments(disk),
		Env: []string{
			"LC_ALL=C", "PATH=/usr/bin:/bin",
			// Keep the memory of large requests: allocating it again takes as long as encrypting it.
			"MALLOC_MMAP_THRESHOLD_=33554432", "MALLOC_TRIM_THRESHOLD_=67108864",
		},
		Files: []*os.File{socket, disk}, // the disk's lock lives as long as one of the two processes
		Rules: e.confineServer(program),
	}, logger)
}

// listenForQEMU creates the server's socket. QEMU before 8.1 doesn't set TCP_NODELAY: the kernel would hold back an
// answer until the client has acknowledged the previous answer, which takes 40 ms.
func (e Export) listenForQEMU(ctx context.Context) (*os.File, error) {
	config := net.ListenConfig{Control: func(_, _ string, socket syscall.RawConn) error {
		var err error
		failed := socket.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) // accepted sockets inherit it
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

// serverArguments returns the server's arguments.
func (e Export) serverArguments(disk *os.File) []string {
	driver := "file"
	if isDevice(disk) {
		driver = "host_device"
	}
	node := "driver=raw,node-name=disk,discard=unmap,file.discard=unmap,file.driver=" + driver +
		",file.filename=" + escapedPath(e.Disk)
	if supportsDirectIO(e.Disk) {
		node += ",cache.direct=on,file.cache.direct=on,file.aio=native"
	}
	export := "type=nbd,id=disk,node-name=disk,name=" + strings.ReplaceAll(e.Name, ",", ",,")
	if e.ReadOnly {
		node += ",read-only=on"
	} else {
		export += ",writable=on"
	}
	return []string{
		"--object", "tls-creds-x509,id=tls,endpoint=server,verify-peer=on,dir=" + escapedPath(e.TLS),
		"--object", "authz-simple,id=client,identity=CN=" + clientName,
		"--blockdev", node,
		"--nbd-server", "addr.type=fd,addr.str=3,tls-creds=tls,tls-authz=client,max-connections=" + strconv.Itoa(clients),
		"--export", export,
	}
}

// escapedPath returns a path in the syntax of QEMU options.
func escapedPath(text string) string { return strings.ReplaceAll(absolutePath(text), ",", ",,") }

func absolutePath(name string) string {
	if abs, err := filepath.Abs(name); err == nil {
		return abs
	}
	return name
}

// supportsDirectIO reports whether the disk can bypass the host's cache; the guest has its own cache.
func supportsDirectIO(name string) bool {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	return unix.Close(fd) == nil
}

// confineServer returns the files that the server may use.
func (e Export) confineServer(program string) *confine.Rules {
	access := confine.Write
	if e.ReadOnly {
		access = confine.Read
	}
	return &confine.Rules{
		Paths: append(confine.Programs(),
			confine.Path{Name: program, Access: confine.Read},
			confine.Path{Name: "/etc/gnutls", Access: confine.Read},
			confine.Path{Name: absolutePath(e.TLS), Access: confine.Read},
			confine.Path{Name: absolutePath(e.Disk), Access: access}),
	}
}

// openDisk opens the disk. If a block device is mounted, or if another process in any container has opened it in the
// same way, the kernel returns EBUSY.
func (e Export) openDisk() (*os.File, error) {
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
