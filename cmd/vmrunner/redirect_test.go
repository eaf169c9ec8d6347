package main

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A server that answers the runner correctly redirects QEMU. QEMU does not reach a cloud's metadata address or, in a
// pod, a loopback address. It follows a redirect to another server.
func TestAServerOfACDLeadsQEMUToNoInternalAddress(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		target, network, resource string
		reached                   bool
	}{
		"metadata":                      {"169.254.169.254", "", "", false},
		"metadata, with a user network": {"169.254.169.254", "{type: user}", "", false},
		"metadata, in a pod":            {"169.254.169.254", "", "resource: 4711", false},
		"a loopback address of a pod":   {"127.0.0.1", "", "resource: 4711", false},
		"the same, with a user network": {"127.0.0.1", "{type: user}", "resource: 4711", false},
		"another server":                {"203.0.113.1", "", "resource: 4711", true},
		"another, with a user network":  {"203.0.113.1", "{type: user}", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			enterHost(t)
			for _, address := range []string{"169.254.169.254/32", "203.0.113.1/32"} {
				ip := exec.CommandContext(t.Context(), "ip", "address", "add", address, "dev", "lo")
				out, err := ip.CombinedOutput()
				require.NoError(t, err, "%s", out)
			}
			reached := make(chan string, 100)
			content := make([]byte, 1<<20)
			serves(t, c.target+":18999", func(w http.ResponseWriter, r *http.Request) {
				reached <- r.Method
				http.ServeContent(w, r, "cd.iso", time.Time{}, bytes.NewReader(content))
			})
			serves(t, outside+":80", func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.UserAgent(), "Go-") {
					http.ServeContent(w, r, "cd.iso", time.Time{}, bytes.NewReader(content))
					return
				}
				http.Redirect(w, r, "http://"+c.target+":18999/cd.iso", http.StatusFound)
			})
			dir := folder(t, "standard", "accelerator: tcg", "firmware: bios", "powerdownTimeout: 0",
				"maximumRam: 32 MiB", "network: ["+c.network+"]",
				"drives: [{type: ide-cd, file: 'http://"+outside+"/cd.iso'}]")
			file := filepath.Join(dir, "config.yaml")
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			text = bytes.Replace(text, []byte("  vm:"), []byte("  "+c.resource+"\n  vm:"), 1)
			require.NoError(t, os.WriteFile(file, text, 0o600))
			p := start(t, dir, nil)
			if c.reached {
				p.await(`booting`)
				require.NotEmpty(t, reached)
				return
			}
			p.await(`qemu ended|booting`)
			require.Empty(t, reached)
			require.NotZero(t, p.exit())
		})
	}
}

// serves serves at an address until the test has ended.
func serves(t *testing.T, address string, handler http.HandlerFunc) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	require.NoError(t, err)
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Close() })
}
