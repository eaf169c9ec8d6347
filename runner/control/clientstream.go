package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
)

// asNotRunning returns ErrNotRunning if no process listens on the socket, otherwise err.
func asNotRunning(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%w: no runner listens on %s", ErrNotRunning, path)
	}
	return err
}

// Events is a stream of events. It must be closed.
type Events struct {
	request *request
	in      *json.Decoder
	ctx     func(error) error
}

// Events begins to read events, of the given types or of all types. The first event is the current status.
func (c *Client) Events(ctx context.Context, types ...string) (*Events, error) {
	path := "/v1/events"
	if len(types) > 0 {
		path += "?types=" + strings.Join(types, ",")
	}
	r, err := c.doRequest(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return nil, err
	}
	return &Events{r, json.NewDecoder(r.Body), func(err error) error { return causeOf(ctx, err) }}, nil
}

// Next waits for the next event. The error is io.EOF when the VM has stopped, io.ErrUnexpectedEOF when the runner
// ended without reporting that.
func (e *Events) Next() (Event, error) {
	var event Event
	err := e.in.Decode(&event)
	switch {
	case err == nil:
		return event, nil
	case errors.Is(err, io.EOF):
		return event, io.EOF
	}
	return event, fmt.Errorf("read events: %w", e.ctx(err))
}

// Close ends the stream.
func (e *Events) Close() { e.request.closeRequest() }

// Console opens the serial console, until the connection is closed.
func (c *Client) Console(ctx context.Context, mode Mode) (net.Conn, error) {
	return c.openStream(ctx, "/v1/console?mode="+string(mode))
}

// VNC opens a connection to the VM's VNC server.
func (c *Client) VNC(ctx context.Context) (net.Conn, error) { return c.openStream(ctx, "/v1/vnc") }

// Forward opens a connection to a TCP port of the guest, regardless of its type of network. If the port is closed
// in the guest, the connection ends.
func (c *Client) Forward(ctx context.Context, port int) (net.Conn, error) {
	return c.openStream(ctx, "/v1/forward?port="+strconv.Itoa(port))
}

// openStream opens a stream. The context only limits the opening.
func (c *Client) openStream(ctx context.Context, path string) (net.Conn, error) {
	header := http.Header{"Connection": {"Upgrade"}, "Upgrade": {upgradeToken}}
	r, err := c.doRequest(ctx, http.MethodGet, path, nil, header)
	if err != nil {
		return nil, err
	}
	if r.StatusCode != http.StatusSwitchingProtocols || !r.stop() {
		r.closeRequest()
		return nil, fmt.Errorf("open a stream: %w", causeOf(ctx, errors.New("the runner answered "+r.Status)))
	}
	return &stream{Conn: r.conn, in: r.in}, nil
}
