package nbd_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"vmop/diskimage/nbd"
	"vmop/test/folder"
	"vmop/test/ports"
	"vmop/test/wait"
)

// ends contains the certificate folders of both ends of an export.
type ends struct{ server, client string }

// certificates creates the certificates of a VM and of a server at 127.0.0.1.
func certificates(t *testing.T) ends {
	t.Helper()
	now := time.Now()
	authority, err := nbd.NewAuthority("vm", now)
	require.NoError(t, err)
	kept, err := authority.Pair() // stored as the manager stores it
	require.NoError(t, err)
	authority, err = nbd.ReadAuthority(kept)
	require.NoError(t, err)
	server, err := authority.Server([]string{"disk.ns.svc"}, []net.IP{net.IPv4(127, 0, 0, 1)}, now)
	require.NoError(t, err)
	client, err := authority.Client(now)
	require.NoError(t, err)
	e := ends{t.TempDir(), t.TempDir()}
	for name, text := range map[string][]byte{
		e.server + "/" + nbd.CAFile:                authority.Certificate,
		e.server + "/" + nbd.ServerCertificateFile: server.Certificate,
		e.server + "/" + nbd.ServerKeyFile:         server.Key,
		e.client + "/" + nbd.CAFile:                authority.Certificate,
		e.client + "/" + nbd.ClientCertificateFile: client.Certificate,
		e.client + "/" + nbd.ClientKeyFile:         client.Key,
	} {
		require.NoError(t, os.WriteFile(name, text, 0o600))
	}
	return e
}

// disk creates an empty disk of 64 MiB.
func disk(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "disk, 1.img")
	require.NoError(t, os.WriteFile(name, nil, 0o600))
	require.NoError(t, os.Truncate(name, 64<<20))
	return name
}

// served is a running export.
type served struct {
	nbd.Export
	log   *transcript
	stop  context.CancelFunc
	ended chan error
}

type transcript struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *transcript) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *transcript) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// run runs an export on a free port.
func run(t *testing.T, e nbd.Export) *served {
	t.Helper()
	e.Address, e.Port = "127.0.0.1", uint16(ports.Reserve(t))
	s := &served{Export: e, log: &transcript{}, ended: make(chan error, 1)}
	ctx, stop := context.WithCancel(t.Context())
	s.stop = stop
	go func() {
		s.ended <- e.Run(ctx, slog.New(slog.NewTextHandler(s.log, nil)))
		close(s.ended)
	}()
	t.Cleanup(func() {
		stop()
		<-s.ended
	})
	return s
}

// ready waits until the export answers as an NBD server. Something else may listen at its port before.
func (s *served) ready(t *testing.T) *served {
	t.Helper()
	wait.Until(t, func() bool {
		require.Empty(t, s.ended, s.log)
		conn, err := net.Dial("tcp", s.address())
		if err != nil {
			return false
		}
		defer conn.Close()
		magic := make([]byte, len("NBDMAGIC"))
		_ = conn.SetReadDeadline(time.Now().Add(time.Second)) // a connected socket accepts it
		_, err = io.ReadFull(conn, magic)
		return err == nil && string(magic) == "NBDMAGIC"
	}, s.log)
	return s
}

func (s *served) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(s.Port))) }

// end stops the export and waits until it has ended.
func (s *served) end(t *testing.T) {
	t.Helper()
	s.stop()
	require.NoError(t, <-s.ended)
}

// pids returns the processes of all servers so far.
func (s *served) pids() []int {
	var all []int
	for _, found := range regexp.MustCompile(`pid=(\d+)`).FindAllStringSubmatch(s.log.String(), -1) {
		pid, _ := strconv.Atoi(found[1])
		all = append(all, pid)
	}
	return all
}

// client returns a qemu-io command that connects to the export like a VM's QEMU.
func (s *served) client(tls string, options string, commands ...string) *exec.Cmd {
	var args []string
	image := "driver=nbd,server.type=inet,server.host=127.0.0.1,server.port=" + strconv.Itoa(int(s.Port)) +
		",export=" + s.Name + options
	if tls != "" {
		args = append(args, "--object", "tls-creds-x509,id=tls,endpoint=client,verify-peer=on,dir="+tls)
		image += ",tls-creds=tls"
	}
	args = append(args, "--image-opts")
	for _, c := range commands {
		args = append(args, "-c", c)
	}
	return exec.Command("qemu-io", append(args, image)...)
}

func said(t *testing.T, c *exec.Cmd) string {
	t.Helper()
	out, _ := c.CombinedOutput() // the output shows the result
	return string(out)
}

func TestTheVMReadsAndWritesTheDisk(t *testing.T) {
	t.Parallel()
	certs, image := certificates(t), disk(t)
	s := run(t, nbd.Export{Disk: image, Name: "data", TLS: certs.server}).ready(t)
	out := said(t, s.client(certs.client, "", "write -P 7 1M 64k", "flush", "read -P 7 1M 64k", "read -P 0 2M 64k"))
	require.Contains(t, out, "wrote 65536/65536")
	require.NotContains(t, out, "failed")
	// The Service's name works as well as the address.
	out = said(t, s.client(certs.client, ",tls-hostname=disk.ns.svc", "discard 1M 64k", "read -P 0 1M 64k"))
	require.Contains(t, out, "read 65536/65536")
	s.end(t)
	data, err := os.ReadFile(image)
	require.NoError(t, err)
	require.Len(t, bytes.TrimLeft(data, "\x00"), 0, "it was discarded")
}

func TestStrangersAreRefused(t *testing.T) {
	t.Parallel()
	certs, others, image := certificates(t), certificates(t), disk(t)
	s := run(t, nbd.Export{Disk: image, Name: "data", TLS: certs.server}).ready(t)
	copyTo := func(from, name, to string) {
		text, err := os.ReadFile(filepath.Join(from, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(to, text, 0o600))
	}
	folderOf := func(ca, certificate, key string) string {
		dir := t.TempDir()
		copyTo(filepath.Dir(ca), filepath.Base(ca), dir+"/"+nbd.CAFile)
		if certificate != "" {
			copyTo(filepath.Dir(certificate), filepath.Base(certificate), dir+"/"+nbd.ClientCertificateFile)
			copyTo(filepath.Dir(key), filepath.Base(key), dir+"/"+nbd.ClientKeyFile)
		}
		return dir
	}
	ca := certs.client + "/" + nbd.CAFile
	for name, c := range map[string]struct{ tls, options string }{
		"without TLS":           {},
		"without a certificate": {tls: folderOf(ca, "", "")},
		"another VM's certificate": {tls: folderOf(ca, others.client+"/"+nbd.ClientCertificateFile,
			others.client+"/"+nbd.ClientKeyFile)},
		"a server's certificate": {tls: folderOf(ca, certs.server+"/"+nbd.ServerCertificateFile,
			certs.server+"/"+nbd.ServerKeyFile)},
	} {
		out := said(t, s.client(c.tls, c.options, "write -P 9 0 64k"))
		require.NotContains(t, out, "wrote", name)
		require.NotEmpty(t, out, name)
	}
	// The VM refuses a server with another authority or another name.
	require.NotContains(t, said(t, s.client(others.client, "", "write 0 64k")), "wrote")
	require.NotContains(t, said(t, s.client(certs.client, ",tls-hostname=other", "write 0 64k")), "wrote")
	s.end(t)
	data, err := os.ReadFile(image)
	require.NoError(t, err)
	require.Empty(t, bytes.TrimLeft(data, "\x00"))
}

// Both sides send without delay: Nagle's algorithm would add 40 ms to a request.
func TestConnectionsSendAtOnce(t *testing.T) {
	t.Parallel()
	certs := certificates(t)
	s := run(t, nbd.Export{Disk: disk(t), Name: "data", TLS: certs.server}).ready(t)
	c := s.client(certs.client, "")
	in, err := c.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = c.Wait()
	})
	wait.Until(t, func() bool { return len(s.pids()) > 0 }, "a process")
	for name, pid := range map[string]int{"server": s.pids()[0], "client": c.Process.Pid} {
		wait.Until(t, func() bool { return len(delays(t, pid)) == 1 }, name)
		require.Equal(t, []int{1}, delays(t, pid), name)
	}
}

// delays returns the TCP_NODELAY setting of each connection of a process. It requires root.
func delays(t *testing.T, pid int) (all []int) {
	t.Helper()
	process, err := unix.PidfdOpen(pid, 0)
	require.NoError(t, err)
	defer unix.Close(process)
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	require.NoError(t, err)
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		require.NoError(t, err)
		socket, err := unix.PidfdGetfd(process, fd, 0)
		if err != nil {
			continue // already closed
		}
		if _, err = unix.Getpeername(socket); err == nil {
			if value, err := unix.GetsockoptInt(socket, unix.IPPROTO_TCP, unix.TCP_NODELAY); err == nil {
				all = append(all, value)
			}
		}
		require.NoError(t, unix.Close(socket))
	}
	return all
}

// Requests of a VM wait during a restart of the server, and all are answered.
func TestRequestsWaitForARestart(t *testing.T) {
	t.Parallel()
	certs, image := certificates(t), disk(t)
	s := run(t, nbd.Export{Disk: image, Name: "data", TLS: certs.server}).ready(t)
	c := s.client(certs.client, ",reconnect-delay=60")
	in, err := c.StdinPipe()
	require.NoError(t, err)
	out := &transcript{}
	c.Stdout, c.Stderr = out, out
	require.NoError(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill() })
	// qemu-io reads each line after the previous command has finished.
	do := func(command, want string) {
		_, err := io.WriteString(in, command+"\n")
		require.NoError(t, err)
		wait.Until(t, func() bool { return strings.Contains(out.String(), want) }, "%s: %s\n%s", command, out, s.log)
	}
	do("write -P 1 0 64k", "wrote 65536/65536")
	time.Sleep(2100 * time.Millisecond) // a shorter run counts as a failed start
	require.NoError(t, syscall.Kill(s.pids()[0], syscall.SIGKILL))
	do("write -P 2 1M 8k", "wrote 8192/8192")
	do("read -P 1 0 64k", "read 65536/65536")
	do("read -P 2 1M 8k", "read 8192/8192")
	do("quit", "")
	require.NoError(t, c.Wait(), out)
	require.NotContains(t, out.String(), "rror")
	require.NotContains(t, out.String(), "fail")
	require.Len(t, s.pids(), 2)
}

func TestTwoExportsNeverWriteAtOnce(t *testing.T) {
	t.Parallel()
	for name, image := range map[string]string{"file": disk(t), "device": folder.Device(t, disk(t))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			oneWrites(t, image)
		})
	}
}

func oneWrites(t *testing.T, image string) {
	certs := certificates(t)
	first := run(t, nbd.Export{Disk: image, Name: "data", TLS: certs.server}).ready(t)
	second := run(t, nbd.Export{Disk: image, Name: "data", TLS: certs.server})
	reader := run(t, nbd.Export{Disk: image, Name: "data", TLS: certs.server, ReadOnly: true})
	for _, s := range []*served{second, reader} {
		wait.Until(t, func() bool { return strings.Contains(s.log.String(), "waiting for the end") })
		require.Empty(t, s.pids())
	}
	reader.end(t)
	first.end(t)
	second.ready(t)
	require.Contains(t, said(t, second.client(certs.client, "", "write 0 64k")), "wrote")
}

func TestReadersShareADisk(t *testing.T) {
	t.Parallel()
	certs, image := certificates(t), disk(t)
	e := nbd.Export{Disk: image, Name: "data", TLS: certs.server, ReadOnly: true}
	first, second := run(t, e).ready(t), run(t, e).ready(t)
	for _, s := range []*served{first, second} {
		c := s.client(certs.client, "", "read -P 0 0 64k")
		c.Args = append(c.Args, "-r")
		require.Contains(t, said(t, c), "read 65536/65536")
		require.NotContains(t, said(t, s.client(certs.client, "", "write 0 64k")), "wrote")
	}
}

// The VM's disk is always raw, even if a guest writes the header of an overlay image to it.
func TestAHeaderOfTheGuestIsData(t *testing.T) {
	t.Parallel()
	certs, dir := certificates(t), t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/secret", bytes.Repeat([]byte{5}, 1<<20), 0o600))
	out, err := exec.Command("qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", dir+"/secret",
		dir+"/disk.img").CombinedOutput()
	require.NoError(t, err, string(out))
	s := run(t, nbd.Export{Disk: dir + "/disk.img", Name: "data", TLS: certs.server}).ready(t)
	require.Contains(t, said(t, s.client(certs.client, "", "read -v 0 512")), "51 46 49 fb") // "QFI", unchanged
}

func TestWhatCannotBeServed(t *testing.T) {
	t.Parallel()
	certs, image := certificates(t), disk(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	good := nbd.Export{
		Disk: image, Name: "d", TLS: certs.server, Address: "127.0.0.1", Port: uint16(taken.Addr().(*net.TCPAddr).Port),
	}
	with := func(change func(*nbd.Export)) nbd.Export {
		e := good
		change(&e)
		return e
	}
	for want, e := range map[string]nbd.Export{
		"address already in use":            good,
		"no such file":                      with(func(e *nbd.Export) { e.Disk += "x" }),
		"neither a file nor a block device": with(func(e *nbd.Export) { e.Disk = "/dev/null" }),
		"ca-cert.pem: No such file": with(func(e *nbd.Export) {
			e.TLS, e.Port = t.TempDir(), uint16(ports.Reserve(t))
		}),
		"/server is neither a file nor a blo": with(func(e *nbd.Export) { e.Disk = fifo(t) }),
	} {
		require.ErrorContains(t, e.Run(t.Context(), slog.New(slog.DiscardHandler)), want)
	}
}

func fifo(t *testing.T) string {
	t.Helper()
	name := t.TempDir() + "/server"
	require.NoError(t, syscall.Mkfifo(name, 0o600))
	return name
}
