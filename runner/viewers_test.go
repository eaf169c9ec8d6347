package runner_test

import (
	"bytes"
	"crypto/des"
	"fmt"
	"image/png"
	"io"
	"math/bits"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/control"
	"vmop/runner/status"
	"vmop/test/ports"
	"vmop/test/spice"
	"vmop/test/wait"
	"vmop/vmstatus"
)

// client returns a client of the VM's runner.
func (v *vm) client() *control.Client {
	v.t.Helper()
	client, err := control.Dial(v.t.Context(), filepath.Join(v.path("run"), control.SocketName))
	require.NoError(v.t, err)
	return client
}

// becomes waits for a status, and returns it.
func (v *vm) becomes(what string, is func(status.Status) bool) (found status.Status) {
	v.t.Helper()
	client := v.client()
	wait.Until(v.t, func() bool {
		var err error
		found, err = client.Status(v.t.Context())
		require.NoError(v.t, err)
		return is(found)
	}, what)
	return found
}

// shows waits until these clients are listed, in this order.
func (v *vm) shows(clients ...string) status.Status {
	v.t.Helper()
	return v.becomes(fmt.Sprint("viewers ", clients), func(s status.Status) bool {
		var have []string
		for _, c := range s.Consoles {
			have = append(have, c.Kind+" "+c.Client)
		}
		return strings.Join(have, ", ") == strings.Join(clients, ", ")
	})
}

// look performs a VNC client's handshake (RFC 6143, section 7) up to ServerInit, and requires that the server asks for
// a password if there is one. Other viewers stay connected.
func look(t *testing.T, conn net.Conn, password string) {
	t.Helper()
	require.NoError(t, conn.SetDeadline(wait.Deadline()))
	read := func(n int) []byte {
		buf := make([]byte, n)
		_, err := io.ReadFull(conn, buf)
		require.NoError(t, err)
		return buf
	}
	write := func(data ...byte) {
		_, err := conn.Write(data)
		require.NoError(t, err)
	}
	write(read(12)...)
	kind := byte(1) // no authentication
	if password != "" {
		kind = 2
	}
	require.Equal(t, []byte{1, kind}, read(2), "one type is offered")
	write(kind)
	if kind == 2 {
		write(vncResponse(t, password, read(16))...)
	}
	require.Equal(t, make([]byte, 4), read(4), "the server lets the client in")
	write(1) // shared
	read(24)
}

// vncResponse answers the challenge: it encrypts it with the password, with reversed bits in each byte.
func vncResponse(t *testing.T, password string, challenge []byte) []byte {
	t.Helper()
	key := make([]byte, 8)
	copy(key, password)
	for i := range key {
		key[i] = bits.Reverse8(key[i])
	}
	block, err := des.NewCipher(key)
	require.NoError(t, err)
	block.Encrypt(challenge[:8], challenge[:8])
	block.Encrypt(challenge[8:], challenge[8:])
	return challenge
}

func dialVNC(t *testing.T, network, address string) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), network, address)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// The status lists a VNC viewer after its log-in, for every way of connecting.
func TestVNCViewers(t *testing.T) {
	t.Parallel()
	port := strconv.Itoa(ports.Reserve(t))
	v := newVM(t, "wrapped")
	v.write("display-password", canary)
	v.configure("wrapped", nil, "accelerator: tcg", "firmware: bios", "network: []", v.observed(),
		"powerdownTimeout: 0", "display: {vnc: {port: "+port+"}}")
	v.runs()
	require.Equal(t, vmstatus.ReasonDisconnected, v.shows().Condition(vmstatus.ConditionConsoleConnected).Reason)

	undecided := dialVNC(t, "tcp", "127.0.0.1:"+port)
	v.log.await(t, v.ended, "QMP event", "event", "VNC_CONNECTED", "data",
		undecided.LocalAddr().(*net.TCPAddr).AddrPort().Addr().String())
	local := dialVNC(t, "unix", v.path("run", "vnc.sock"))
	look(t, local, canary)
	v.shows("vnc a process of this host")
	remote := dialVNC(t, "tcp", "127.0.0.1:"+port)
	look(t, remote, canary)
	byTCP := "vnc " + remote.LocalAddr().String()
	v.shows("vnc a process of this host", byTCP)
	stream, err := v.client().VNC(t.Context())
	require.NoError(t, err)
	look(t, stream, canary)
	byRunner := fmt.Sprintf("vnc uid %d pid %d", os.Getuid(), os.Getpid())
	s := v.shows("vnc a process of this host", byTCP, byRunner)
	require.Equal(t, vmstatus.True, s.Condition(vmstatus.ConditionConsoleConnected).Status)

	// When QEMU lists its clients, a client that has not logged in is still not shown.
	asked := func() int { return len(v.log.find("QMP reply", "command", "query-vnc-servers")) }
	wait.Until(t, func() bool { return asked() >= 2 })
	v.shows("vnc a process of this host", byTCP, byRunner)
	require.NoError(t, undecided.Close())
	require.NoError(t, local.Close())
	v.shows(byTCP, byRunner)
	require.NoError(t, stream.Close())
	require.NoError(t, remote.Close())
	v.shows()
	v.logged("screen opened", "kind", "vnc", "client", remote.LocalAddr().String())
	v.logged("screen closed", "kind", "vnc", "client", strings.TrimPrefix(byRunner, "vnc "))
	v.hides(canary)
	v.ends()
}

// The runner shows every screen without the password of QEMU's other servers, and lists each viewer once.
func TestScreenThroughTheRunner(t *testing.T) {
	t.Parallel()
	v := newVM(t, "wrapped")
	v.write("display-password", canary)
	v.configure("wrapped", nil, "accelerator: tcg", "firmware: bios", "network: []", v.observed(),
		"powerdownTimeout: 0", "display: {spice: {port: "+strconv.Itoa(ports.Reserve(t))+", address: 127.0.0.1}}")
	v.runs()
	typist, err := v.client().Screen(t.Context(), control.Type)
	require.NoError(t, err)
	look(t, typist, "")
	watcher, err := v.client().Screen(t.Context(), control.Watch)
	require.NoError(t, err)
	look(t, watcher, "")
	me := fmt.Sprintf("vnc uid %d pid %d", os.Getuid(), os.Getpid())
	s := v.shows(me, me)
	require.Equal(t, []string{status.ModeType, status.ModeWatch}, []string{s.Consoles[0].Mode, s.Consoles[1].Mode})
	require.Equal(t, me+"; watching "+me, s.Condition(vmstatus.ConditionConsoleConnected).Message)
	v.log.await(t, v.ended, "QMP event", "event", "VNC_INITIALIZED")
	asked := func() int { return len(v.log.find("QMP reply", "command", "query-vnc-servers")) }
	wait.Until(t, func() bool { return asked() >= 1 })
	v.shows(me, me)
	var shot bytes.Buffer
	require.NoError(t, v.client().Screenshot(t.Context(), &shot), "the kernel lets QEMU write it")
	_, err = png.Decode(&shot)
	require.NoError(t, err)
	require.NoError(t, typist.Close())
	require.NoError(t, watcher.Close())
	v.shows()
	v.ends()
}

// A SPICE client has several connections, but is listed once. The password comes from the file next to the
// configuration, even after a change.
func TestSPICEViewers(t *testing.T) {
	t.Parallel()
	port := strconv.Itoa(ports.Reserve(t))
	v := newVM(t, "wrapped")
	v.write("display-password", canary)
	v.configure("wrapped", nil, "accelerator: tcg", "firmware: bios", "network: []", v.observed(),
		"powerdownTimeout: 0", "display: {spice: {port: "+port+", address: 127.0.0.1}}")
	v.runs()
	address := "127.0.0.1:" + port

	login := func(channel uint8, session uint32, password string) (net.Conn, uint32) {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		return conn, spice.Login(t, conn, channel, session, password)
	}
	_, result := login(spice.Main, 0, "wrong")
	require.Equal(t, uint32(spice.Refused), result)
	screen, result := login(spice.Main, 0, canary)
	require.Zero(t, result)
	v.shows("spice " + screen.LocalAddr().String())
	inputs, result := login(spice.Inputs, spice.Session(t, screen), canary)
	require.Zero(t, result)
	v.log.await(t, v.ended, "QMP event", "event", "SPICE_INITIALIZED", "data", `"channel-type": 3`)
	v.shows("spice " + screen.LocalAddr().String())

	v.write("display-password", "other")
	wait.Until(t, func() bool {
		return len(v.log.find("QMP reply", "command", "set_password")) == 2
	})
	_, result = login(spice.Main, 0, canary)
	require.Equal(t, uint32(spice.Refused), result)
	require.NoError(t, inputs.Close())
	v.log.await(t, v.ended, "QMP event", "event", "SPICE_DISCONNECTED", "data",
		inputs.LocalAddr().(*net.TCPAddr).AddrPort().String()[len("127.0.0.1:"):])
	v.shows("spice " + screen.LocalAddr().String())

	// The runner needs no password, and disconnects the other client.
	_, err := v.client().SPICE(t.Context(), "id", control.Type)
	require.ErrorContains(t, err, "in use by "+screen.LocalAddr().String())
	through, err := v.client().SPICE(t.Context(), "id", control.Take)
	require.NoError(t, err)
	defer through.Close()
	require.Zero(t, spice.Login(t, through, spice.Main, 0, ""))
	me := fmt.Sprintf("spice uid %d pid %d", os.Getuid(), os.Getpid())
	v.shows(me)
	require.NoError(t, through.Close())
	v.shows()
	v.hides(canary)
	v.ends()
}
