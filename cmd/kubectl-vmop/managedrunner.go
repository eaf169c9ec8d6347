package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/coder/websocket"

	"vmop/internal/cli"
	"vmop/manager/web/fleet"
	"vmop/runner/control"
	"vmop/runner/hardware"
)

// managed is a runner reached through the manager.
type managed struct {
	*manager
	name string
}

var _ runner = managed{}

// Plan implements runner for the forms that the manager supports.
func (m managed) Plan(ctx context.Context, w io.Writer, form string) error {
	var text bytes.Buffer
	var lines []fleet.Argument
	if form == "argv" || form == "shell" {
		return cli.UsageError{Err: fmt.Errorf("-o %s: must be text or json through the manager", form)}
	}
	if err := m.doRequest(ctx, http.MethodGet, m.vmURL(m.name, "plan"), nil, &text); err != nil {
		return err
	}
	if form == "json" {
		_, err := w.Write(text.Bytes())
		return err
	}
	if err := json.Unmarshal(text.Bytes(), &lines); err != nil {
		return fmt.Errorf("read the manager's answer: %w", err)
	}
	for _, line := range lines {
		shown := strings.Repeat("    ", line.Depth) + cli.Printable(line.Text)
		if form == "why" && len(line.Origins) > 0 {
			shown += "   # " + cli.Printable(strings.Join(line.Origins, " < "))
		}
		if err := cli.WriteLine(w, shown); err != nil {
			return err
		}
	}
	return nil
}

// Devices implements runner.
func (m managed) Devices(ctx context.Context) (r hardware.Report, err error) {
	err = m.doRequest(ctx, http.MethodGet, m.vmURL(m.name, "devices"), nil, &r)
	return r, err
}

// Screenshot implements runner.
func (m managed) Screenshot(ctx context.Context, w io.Writer) error {
	var png bytes.Buffer
	if err := m.doRequest(ctx, http.MethodGet, m.vmURL(m.name, "screenshot"), nil, &png); err != nil {
		return err
	}
	_, err := w.Write(png.Bytes())
	return err
}

// Console implements runner.
func (m managed) Console(ctx context.Context, mode control.Mode) (net.Conn, error) {
	return m.openStream(ctx, m.vmURL(m.name, "console")+"?mode="+string(mode))
}

// Screen implements runner.
func (m managed) Screen(ctx context.Context, mode control.Mode) (net.Conn, error) {
	return m.openStream(ctx, m.vmURL(m.name, "screen")+"?mode="+string(mode))
}

// SPICE implements runner.
func (m managed) SPICE(ctx context.Context, id string, mode control.Mode) (net.Conn, error) {
	return m.openStream(ctx, m.vmURL(m.name, "spice")+"?mode="+string(mode)+"&id="+url.QueryEscape(id))
}

// Forward implements runner.
func (m managed) Forward(ctx context.Context, port int) (net.Conn, error) {
	return m.openStream(ctx, m.vmURL(m.name, "port", strconv.Itoa(port)))
}

// openStream opens a stream. ctx only applies to opening it.
func (m *manager) openStream(ctx context.Context, address string) (net.Conn, error) {
	socket, answer, err := websocket.Dial(ctx, address, &websocket.DialOptions{
		HTTPClient: m.http, CompressionMode: websocket.CompressionDisabled,
	})
	switch {
	case err != nil && answer != nil && answer.StatusCode != http.StatusSwitchingProtocols:
		return nil, problemOf(answer)
	case err != nil:
		return nil, fmt.Errorf("open a stream of the manager: %w", causeOf(ctx, err))
	}
	lasting := context.WithoutCancel(ctx)
	return &socketConn{websocket.NetConn(lasting, socket, websocket.MessageBinary), socket, lasting}, nil
}

// socketConn is a stream of the manager.
type socketConn struct {
	net.Conn
	socket *websocket.Conn
	ctx    context.Context
}

// Codes that the manager ends a stream with.
const (
	streamEnded   websocket.StatusCode = 4000
	streamRefused websocket.StatusCode = 4001
)

// Read implements net.Conn.
func (c *socketConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	switch websocket.CloseStatus(err) {
	case streamEnded:
		err = io.EOF
	case streamRefused:
		err = errors.New("the manager has ended the stream: the permission is gone, or the token has expired")
	}
	return n, err
}

// CloseWrite ends the sent data with an empty message.
func (c *socketConn) CloseWrite() error { return c.socket.Write(c.ctx, websocket.MessageBinary, nil) }

// Close implements net.Conn. It does not wait for the peer's close message.
func (c *socketConn) Close() error { return c.socket.CloseNow() }
