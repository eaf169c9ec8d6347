package main

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/diskimage/nbd"
	"vmop/test/ports"
	"vmop/test/wait"
)

// servable returns the arguments for serving an empty disk to clients with the certificate in the same folder.
func servable(t testing.TB) []string {
	t.Helper()
	dir := t.TempDir()
	authority, err := nbd.NewAuthority("vm", time.Now())
	require.NoError(t, err)
	server, err := authority.Server(nil, []net.IP{net.IPv4(127, 0, 0, 1)}, time.Now())
	require.NoError(t, err)
	client, err := authority.Client(time.Now())
	require.NoError(t, err)
	for name, text := range map[string][]byte{
		nbd.CAFile: authority.Certificate, nbd.ServerCertificateFile: server.Certificate,
		nbd.ServerKeyFile: server.Key, nbd.ClientCertificateFile: client.Certificate,
		nbd.ClientKeyFile: client.Key, "disk.img": make([]byte, 1<<20),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	return []string{
		"serve", "--disk", dir + "/disk.img", "--tls", dir, "--address", "127.0.0.1",
		"--port", strconv.Itoa(ports.Reserve(t)),
		"--termination-log", dir + "/log",
	}
}

func (r *ran) says(t testing.TB, what string) {
	t.Helper()
	wait.Until(t, func() bool { return strings.Contains(r.log.String(), what) },
		r.log)
}

// A killed vmimport leaves a server that keeps writing and holds the lock.
func TestServeUntilASignal(t *testing.T) {
	t.Parallel()
	args := servable(t)
	first := start(t, nil, args...)
	first.says(t, "serving the disk")
	require.NoError(t, first.Process.Kill())
	<-first.ended
	pid, err := strconv.Atoi(regexp.MustCompile(`pid\W+(\d+)`).FindStringSubmatch(first.log.String())[1])
	require.NoError(t, err)
	second := start(t, nil, args...)
	second.says(t, "waiting for the end of another export")
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	second.says(t, "serving the disk")
	second.terminate(t)
}

// terminate ends the program. A server that it has started would outlive the test.
func (r *ran) terminate(t testing.TB) {
	t.Helper()
	require.NoError(t, r.Process.Signal(syscall.SIGTERM))
	_, code := r.end(t)
	require.Zero(t, code, r.log)
}

// A missing disk in a file system is created.
func TestServeANewDisk(t *testing.T) {
	t.Parallel()
	args := servable(t)
	require.NoError(t, os.Remove(args[2]))
	r := start(t, nil, append(args, "--size", "3145728")...)
	r.says(t, "serving the disk")
	info, err := os.Stat(args[2])
	require.NoError(t, err)
	require.EqualValues(t, 3<<20, info.Size())
	r.terminate(t)
}

func TestServeWhatIsNotThere(t *testing.T) {
	t.Parallel()
	args := servable(t)
	require.NoError(t, os.Remove(args[2]))
	r := start(t, nil, args...)
	_, code := r.end(t)
	require.Equal(t, 1, code)
	text, err := os.ReadFile(args[len(args)-1])
	require.NoError(t, err)
	require.Contains(t, string(text), "no such file")
	_, code = start(t, nil, "serve", "--disk", "x").end(t)
	require.Equal(t, 2, code)
}
