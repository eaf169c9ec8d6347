package e2e_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "vmop/api/v1"
	"vmop/test/guest"
	"vmop/test/wait"
)

// A guest boots from a CD on a web server that needs a password, at the VM's start and after a change of the medium.
// The passwords appear only in the definition of the medium, and not in a command line, log, event or status.
func mediumByPassword(t *testing.T, l *lab) {
	const user, first, second = "canary-user-11c0", "canary-first-5d3e", "canary-second-a8f2"
	server := newMediaServer(t, l, user, map[string]string{"/first.iso": first, "/second.iso": second})
	v := l.create(t, tiny("medium", func(s *v1.VirtualMachineSpec) {
		s.VM.Kernel, s.VM.PowerdownTimeout = nil, new(int32(1))
		s.VM.Display = &v1.Display{Spice: &v1.Spice{Port: 5900}}
		s.VM.Disks = []v1.Disk{{CDROM: &v1.CDROM{Image: server.address(user, first, "/first.iso")}}}
		s.LoggingProperties = ".level=ALL"
	}))
	v.runs()
	require.Regexp(t, `(?m)^medium +[A-Z]`, v.runner("ps"))
	screen := v.console()
	screen.await(guest.SectorSays)
	require.Positive(t, server.served("/first.iso"))
	l.searchFor(t, v, first, []string{"ConfigMap/medium", "VirtualMachine/medium", "file machine.json"})

	v.change(func(s *v1.VirtualMachineSpec) {
		s.VM.Disks[0].CDROM.Image = server.address(user, second, "/second.iso")
	})
	wait.For(t, "the other CD", func() error {
		if blocks := v.runner("qmp", "medium", "query-block"); !strings.Contains(blocks, "/second.iso") {
			return fmt.Errorf("QEMU has %s", blocks)
		}
		return nil
	})
	v.change(func(s *v1.VirtualMachineSpec) { s.ResetCounter = new(int64(1)) })
	screen.await(guest.SectorSays)
	require.Positive(t, server.served("/second.iso"))
	l.searchFor(t, v, second, []string{"ConfigMap/medium", "VirtualMachine/medium", "file config.yaml"})
	l.searchFor(t, v, first, []string{"file machine.json"}) // the definition with which it was started
	v.delete()
}

// mediaServer serves one bootable CD under several names, each with a password.
type mediaServer struct {
	user      string
	passwords map[string]string // by path
	medium    string
	at        net.Addr

	mu    sync.Mutex
	bytes map[string]int // read from the medium, by path
}

func newMediaServer(t *testing.T, l *lab, user string, passwords map[string]string) *mediaServer {
	t.Helper()
	dir := t.TempDir()
	files := filepath.Join(dir, "files")
	require.NoError(t, os.Mkdir(files, 0o700))
	sectors := append(guest.Sector(), make([]byte, 3*512)...)
	require.NoError(t, os.WriteFile(filepath.Join(files, "sector"), sectors, 0o600))
	m := &mediaServer{
		user: user, passwords: passwords, medium: filepath.Join(dir, "medium.iso"), bytes: map[string]int{},
	}
	out, err := exec.CommandContext(t.Context(), "genisoimage", "-quiet", "-no-emul-boot", "-boot-load-size", "4",
		"-b", "sector", "-o", m.medium, files).CombinedOutput()
	require.NoError(t, err, "%s", out)
	listener, err := l.Listen(t.Context())
	require.NoError(t, err)
	m.at = listener.Addr()
	server := &http.Server{Handler: m, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // serves until the test ends
	t.Cleanup(func() { _ = server.Close() })
	return m
}

// address returns the address of a medium, with user and password.
func (m *mediaServer) address(user, password, path string) string {
	return fmt.Sprintf("http://%s:%s@%s%s", user, password, m.at, path)
}

func (m *mediaServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	password, known := m.passwords[r.URL.Path]
	if user, given, _ := r.BasicAuth(); !known || user != m.user || given != password {
		w.Header().Set("WWW-Authenticate", `Basic realm="media"`)
		http.Error(w, "log in", http.StatusUnauthorized)
		return
	}
	counted := &countedWriter{ResponseWriter: w}
	http.ServeFile(counted, r, m.medium)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bytes[r.URL.Path] += counted.n
}

// served returns how many bytes of a medium were read.
func (m *mediaServer) served(path string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes[path]
}

// countedWriter counts the bytes of a response.
type countedWriter struct {
	http.ResponseWriter
	n int
}

func (c *countedWriter) Write(text []byte) (int, error) {
	n, err := c.ResponseWriter.Write(text)
	c.n += n
	return n, err
}
