package control_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"vmop/qmp"
	"vmop/runner/control"
	"vmop/runner/status"
	"vmop/test/wait"
)

// screen opens the screen as a client.
func (s *served) screen(t *testing.T, mode control.Mode) net.Conn {
	t.Helper()
	conn, err := s.client.Screen(timeout(t), mode)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// vnc performs a viewer's handshake and returns the width of the screen. It requests exclusive access, which QEMU must
// not grant.
func vnc(t *testing.T, conn net.Conn) uint16 {
	t.Helper()
	require.Equal(t, "RFB 003.008\n", expect(t, conn, "\n"))
	send(t, conn, "RFB 003.008\n")
	read := func(n int) []byte {
		buf := make([]byte, n)
		_, err := io.ReadFull(conn, buf)
		require.NoError(t, err)
		return buf
	}
	require.Equal(t, []byte{1, 1}, read(2), "no security type but none")
	send(t, conn, "\x01")
	require.Equal(t, make([]byte, 4), read(4))
	send(t, conn, "\x00") // exclusive
	head := read(24)
	read(int(binary.BigEndian.Uint32(head[20:])))
	return binary.BigEndian.Uint16(head)
}

// key returns the press and release of a key.
func key(of rune) string {
	return fmt.Sprintf("\x04\x01\x00\x00\x00\x00\x00%c\x04\x00\x00\x00\x00\x00\x00%c", of, of)
}

// picture requests the whole screen and waits for the first byte.
func picture(t *testing.T, conn net.Conn) {
	t.Helper()
	send(t, conn, "\x03\x00\x00\x00\x00\x00\x00\x10\x00\x10")
	head := make([]byte, 4)
	_, err := io.ReadFull(conn, head)
	require.NoError(t, err)
	require.Zero(t, head[0], "a FramebufferUpdate")
}

// echo creates a boot sector that writes keyboard input to the serial port.
func echo(t *testing.T, dir string) string {
	t.Helper()
	sector := make([]byte, 1<<20) // a BIOS ignores smaller disks
	copy(sector, "\xba\xf8\x03"+  // mov dx, 0x3f8
		"\xb4\x00\xcd\x16"+ // read a key (BIOS, int 0x16)
		"\xee"+ // out dx, al
		"\xeb\xf9") // repeat
	copy(sector[510:], "\x55\xaa")
	path := filepath.Join(dir, "echo.img")
	require.NoError(t, os.WriteFile(path, sector, 0o600))
	return path
}

// Many clients watch the screen of a real QEMU, and the guest receives the keys of only one.
func TestManySeeTheScreenAndOneTypes(t *testing.T) {
	t.Parallel()
	s := serveQEMU(t, "-drive", "file="+echo(t, t.TempDir())+",format=raw,if=ide,snapshot=on")
	serial, err := net.Dial("unix", s.backend.plan.Socket("console"))
	require.NoError(t, err)
	s.Console().Attach(serial)
	console := s.open(t, control.Watch)
	_, err = s.client.QMP(timeout(t), qmp.Command{Execute: "cont"})
	require.NoError(t, err)
	expect(t, console, "Booting from Hard Disk...\r\n")

	watcher, typist := s.screen(t, control.Watch), s.screen(t, control.Type)
	require.NotZero(t, vnc(t, watcher))
	require.NotZero(t, vnc(t, typist))
	send(t, watcher, key('w'))
	picture(t, watcher) // its key has been read by now
	send(t, typist, key('t'))
	require.Equal(t, "t", expect(t, console, "t"), "nothing of what the watcher typed")

	_, err = s.client.Screen(t.Context(), control.Type)
	me := fmt.Sprintf("uid %d pid %d", os.Getuid(), os.Getpid())
	require.EqualError(t, err, "the screen is in use by "+me)
	second := s.screen(t, control.Take)
	vnc(t, second)
	_, err = io.Copy(io.Discard, typist)
	require.NoError(t, err, "the stream of the one who typed ends")
	send(t, second, key('z'))
	expect(t, console, "z")
	picture(t, watcher)
	wait.Until(t, func() bool {
		return consoles(s.tracker.Status()) == "serial watch, vnc watch, vnc type"
	})
	for _, conn := range []net.Conn{watcher, second} {
		require.NoError(t, conn.Close())
	}
	wait.Until(t, func() bool {
		return consoles(s.tracker.Status()) == "serial watch"
	})
}

// consoles returns the viewers in a status, such as "serial watch, vnc type".
func consoles(s status.Status) string {
	text := ""
	for i, c := range s.Consoles {
		if i > 0 {
			text += ", "
		}
		text += c.Kind + " " + c.Mode
	}
	return text
}

// The control interface refuses clients beyond the bound that QEMU would accept.
func TestScreenIsBounded(t *testing.T) {
	t.Parallel()
	s := serve(t)
	l, err := net.Listen("unix", s.backend.plan.Socket("screen"))
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	for range control.MaxScreens {
		s.screen(t, control.Watch)
	}
	_, err = s.client.Screen(t.Context(), control.Watch)
	var refused *control.AnswerError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, 503, refused.Code)
}

// A watcher that sends an unknown message is disconnected, and the log contains the reason.
func TestAWatcherIsHeldToTheProtocol(t *testing.T) {
	t.Parallel()
	s := serve(t)
	l, err := net.Listen("unix", s.backend.plan.Socket("screen"))
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	conn := s.screen(t, control.Watch)
	server, err := l.Accept()
	require.NoError(t, err)
	defer server.Close()
	require.NoError(t, server.SetDeadline(wait.Deadline()))
	require.NoError(t, conn.SetDeadline(wait.Deadline()))
	send(t, conn, "RFB 003.008\n\x01\x01\x63")
	sent, err := io.ReadAll(server)
	require.NoError(t, err)
	require.Equal(t, "RFB 003.008\n\x01\x01", string(sent))
	_, err = io.ReadAll(conn)
	require.NoError(t, err)
	wait.Until(t, func() bool {
		return strings.Contains(s.log.String(), "sends a message of the unknown type 99")
	})
}

// Clients that request a screenshot while one is in progress share the next screenshot.
func TestScreenshotsAreShared(t *testing.T) {
	t.Parallel()
	const clients = 20
	s := serve(t)
	begun, end := make(chan bool), make(chan string)
	var file int
	s.backend.run = func(_ context.Context, c qmp.Command) (json.RawMessage, error) {
		switch c.Execute {
		case "add-fd":
			var err error
			file, err = unix.Dup(int(c.File.Fd())) // as it is sent
			return json.RawMessage(`{"fdset-id": 3}`), err
		case "screendump":
			if name := c.Arguments.(map[string]string)["filename"]; name != "/dev/fdset/3" {
				return nil, errors.New(name)
			}
			begun <- true
			_, err := unix.Write(file, []byte(<-end))
			return nil, errors.Join(err, unix.Close(file))
		}
		return nil, nil
	}
	results := make(chan error)
	get := func() {
		var out countingWriter
		err := s.client.Screenshot(t.Context(), &out)
		if err == nil && out != 4 {
			err = fmt.Errorf("%d bytes came", out)
		}
		results <- err
	}
	go get()
	<-begun
	for range clients {
		go get()
	}
	wait.Until(t, func() bool { return s.Waiting() == clients })
	end <- "png1"
	require.NoError(t, <-results)
	<-begun
	end <- "png2"
	for range clients {
		require.NoError(t, <-results)
	}
	left, err := filepath.Glob(filepath.Join(s.dir, "shot*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// countingWriter counts bytes.
type countingWriter int

func (w *countingWriter) Write(data []byte) (int, error) {
	*w += countingWriter(len(data))
	return len(data), nil
}
