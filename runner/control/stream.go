package control

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
)

// upgraded is the answer that ends HTTP on a connection (RFC 9110, 7.8).
const upgraded = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + upgradeToken + "\r\n\r\n"

// wantsUpgrade returns an error unless the client has requested a stream.
func wantsUpgrade(r *http.Request) error {
	if !strings.EqualFold(r.Header.Get("Upgrade"), upgradeToken) {
		return badRequest{errors.New(
			"this is a stream: send the headers Connection: Upgrade and Upgrade: " + upgradeToken)}
	}
	return nil
}

// stream is a connection that was taken over from HTTP.
type stream struct {
	net.Conn
	in *bufio.Reader // first the bytes that were already read, then the rest
}

func (s *stream) Read(p []byte) (int, error) { return s.in.Read(p) }

// CloseWrite ends the sent direction. The other end closes the stream in response.
func (s *stream) CloseWrite() error {
	if conn, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		return conn.CloseWrite()
	}
	return s.Conn.Close()
}

// upgradeStream takes over a connection from HTTP. The caller must call forgetStream at the end.
func (s *Server) upgradeStream(w http.ResponseWriter) (*stream, error) {
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, fmt.Errorf("take over the connection: %w", err)
	}
	if !s.keepStream(conn) {
		_ = conn.Close()
		return nil, errors.New("the control interface is closed")
	}
	if _, err := conn.Write([]byte(upgraded)); err != nil {
		s.forgetStream(conn)
		return nil, fmt.Errorf("begin a stream: %w", err)
	}
	return &stream{Conn: conn, in: buf.Reader}, nil
}

// spliceStreams copies in both directions until either side ends, and closes both.
func spliceStreams(a, b io.ReadWriteCloser) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.CopyBuffer(onlyWriter{a}, onlyReader{b}, make([]byte, 4<<10)) // only its end matters
		_, _ = a.Close(), b.Close()
	}()
	_, _ = io.CopyBuffer(onlyWriter{b}, onlyReader{a}, make([]byte, 4<<10))
	_, _ = b.Close(), a.Close()
	<-done
}

// onlyReader and onlyWriter hide methods. Otherwise io.Copy would choose its own, larger buffer.
type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)

// getConsole streams the serial console.
func (s *Server) getConsole(w http.ResponseWriter, r *http.Request) error {
	if err := wantsUpgrade(r); err != nil {
		return err
	}
	mode, err := modeOf(r)
	if err != nil {
		return err
	}
	if _, err := s.socketFor("console"); err != nil {
		return err
	}
	client := senderOf(r)
	viewer, err := s.console.Open(mode, client)
	if err != nil {
		return err
	}
	defer viewer.Close()
	conn, err := s.upgradeStream(w)
	if err != nil {
		return nil // the client has disconnected
	}
	defer s.forgetStream(conn.Conn)
	s.opts.Log.Info("serial console opened", "command", string(mode), "client", client.String())
	s.attendViewer(conn, viewer, mode)
	s.opts.Log.Info("serial console closed", "client", client.String())
	return nil
}

// attendViewer serves a viewer until the client disconnects, the console ends, or another viewer takes over. It drops
// the input of a viewer that only watches.
func (s *Server) attendViewer(conn *stream, viewer *Viewer, mode Mode) {
	if mode != Watch {
		spliceStreams(conn, viewer)
		return
	}
	spliceStreams(conn, struct {
		io.Reader
		io.Writer
		io.Closer
	}{viewer, io.Discard, viewer})
}

// getVNC streams the protocol of QEMU's VNC server (RFC 6143).
func (s *Server) getVNC(w http.ResponseWriter, r *http.Request) error {
	if err := wantsUpgrade(r); err != nil {
		return err
	}
	path, err := s.socketFor("vnc")
	if err != nil {
		return err
	}
	screen, err := dialQEMU(r.Context(), path, vncClientName(senderOf(r).String()))
	if err != nil {
		return err
	}
	defer screen.Close()
	conn, err := s.upgradeStream(w)
	if err != nil {
		return nil // the client has disconnected
	}
	defer s.forgetStream(conn.Conn)
	spliceStreams(conn, screen)
	return nil
}

// vncClientPrefix begins the name that QEMU reports for a client that is connected through the control interface.
const vncClientPrefix = "vmop-vnc/"

// vncClientName returns an address for this end of a connection with QEMU's VNC server. The address is in Linux'
// abstract namespace (unix(7)), and is used once. It contains the viewer's name, because QEMU's events contain
// the address.
func vncClientName(who string) string {
	name := "@" + vncClientPrefix + rand.Text() + "/" + who
	return strings.ToValidUTF8(name[:min(len(name), maxSocketPath)], "")
}

// VNCClient returns the client that is connected through the control interface, from the name that QEMU reports
// for it.
func VNCClient(name string) (who string, ok bool) {
	rest, found := strings.CutPrefix(name, vncClientPrefix)
	_, who, cut := strings.Cut(rest, "/")
	return who, found && cut
}

// dialQEMU is like dial for a socket of QEMU. The error is a Refusal.
func dialQEMU(ctx context.Context, path, from string) (net.Conn, error) {
	conn, err := dialSocket(ctx, path, from)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, Refusal(path + " was removed while the VM is running; if it does not come back, restart the VM")
	case err != nil:
		return nil, Refusal(err.Error())
	}
	return conn, nil
}

// dialSocket connects to a unix socket; from is the address of this end, if not empty.
func dialSocket(ctx context.Context, path, from string) (net.Conn, error) {
	var d net.Dialer
	if from != "" {
		d.LocalAddr = &net.UnixAddr{Name: from, Net: "unix"}
	}
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", path, err)
	}
	return conn, nil
}
