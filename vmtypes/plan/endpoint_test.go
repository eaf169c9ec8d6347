package plan_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/vmtypes/plan"
)

// monitor is the monitor of a QEMU without a machine.
type monitor struct {
	t     *testing.T
	in    io.Writer
	lines *bufio.Scanner
}

func newMonitor(t *testing.T) *monitor {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "/usr/bin/qemu-system-x86_64", "-M", "none", "-nodefaults", "-S",
		"-display", "none", "-qmp", "stdio")
	cmd.Dir = t.TempDir()
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	m := &monitor{t, in, bufio.NewScanner(out)}
	m.do(`{"execute":"qmp_capabilities"}`)
	return m
}

// do runs a command and returns the answer.
func (m *monitor) do(command string) json.RawMessage {
	_, err := io.WriteString(m.in, command)
	require.NoError(m.t, err)
	for m.lines.Scan() {
		var answer struct{ Return json.RawMessage }
		require.NoError(m.t, json.Unmarshal(m.lines.Bytes(), &answer))
		if answer.Return != nil {
			return answer.Return
		}
	}
	m.t.Fatal("QEMU has ended")
	return nil
}

// human runs a command of the human monitor, which parses options like the command line.
func (m *monitor) human(line string) {
	text, err := json.Marshal(line)
	require.NoError(m.t, err)
	m.do(`{"execute":"human-monitor-command","arguments":{"command-line":` + string(text) + `}}`)
}

// chardev returns QEMU's description of the character device x, or "".
func (m *monitor) chardev() string {
	var list []struct{ Label, Filename string }
	require.NoError(m.t, json.Unmarshal(m.do(`{"execute":"query-chardev"}`), &list))
	for _, c := range list {
		if c.Label == "x" {
			return c.Filename
		}
	}
	return ""
}

// For each text that QEMU accepts, Endpoint returns the same address and direction as QEMU.
func TestQEMUReadsEndpointsAsWeDo(t *testing.T) {
	t.Parallel()
	m := newMonitor(t)
	var lc net.ListenConfig
	called, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer called.Close()
	_, port, err := net.SplitHostPort(called.Addr().String())
	require.NoError(t, err)
	words := strings.Fields("server noserver server= server=on server=off server=yes server=no server=true server=false " +
		"server=y server=n server=ON server=0 server=maybe wait=off nowait host=127.0.0.1 host=127.0.0.1 port=0 port=" + port +
		" path=s path=a,,b path=s,, to=2 abstract=on abstract=n nodelay telnet=on id=y nohost xserver=on serve")
	random := rand.New(rand.NewPCG(3, 4))
	taken, servers := 0, 0
	for i := range 1500 {
		text := "socket,id=x" + []string{"", ",wait=off"}[i%2] // only allowed for servers
		for range 1 + random.IntN(4) {
			text += "," + words[random.IntN(len(words))]
		}
		if random.IntN(3) > 0 {
			text += ",host=127.0.0.1,port=" + port
		}
		e, is, err := plan.Option{Flag: "--chardev", Value: text}.Structured().Endpoint()
		if i%2 == 0 && e.Server {
			continue // QEMU would wait for a client
		}
		m.human("chardev-add " + text)
		found := m.chardev()
		if found == "" {
			continue
		}
		taken++
		require.NoError(t, err, text)
		require.True(t, is)
		servers += agree(t, text, found, e)
		m.human("chardev-remove x")
		require.Empty(t, m.chardev(), text)
	}
	require.Greater(t, servers, 20)
	require.Greater(t, taken-servers, 20)
}

// agree checks that an endpoint matches QEMU's description, and returns 1 for a server.
func agree(t *testing.T, text, found string, e plan.Endpoint) int {
	t.Helper()
	require.Equal(t, e.Server, strings.Contains(found, ",server"), "%s: %s", text, found)
	if e.Path != "" {
		require.Contains(t, found, "unix:"+e.Path, text)
	} else {
		require.Contains(t, found, fmt.Sprintf("%s:", e.Host), text)
		if !e.Server {
			require.Contains(t, found, ":"+e.Port, text)
		}
	}
	if e.Server {
		return 1
	}
	return 0
}
