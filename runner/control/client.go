package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"vmop/internal/printable"
	"vmop/qmp"
	"vmop/runner/hardware"
	"vmop/runner/status"
)

// ErrNotRunning reports that no runner serves a socket.
var ErrNotRunning = errors.New("the VM is not running")

// An AnswerError is an answer of the runner that reports a failure.
type AnswerError struct {
	// Code is the HTTP status: 409 if the VM can't do it now, 423 if another client types on the console, 404 if
	// the VM does not have the requested object.
	Code int
	// Message is for people.
	Message string
}

func (e *AnswerError) Error() string { return e.Message }

// A Client sends requests to one runner. Its methods may be called concurrently; each request uses its own
// connection.
type Client struct {
	dial func(context.Context) (net.Conn, error)
	user string
}

// NewClient returns a client of the runner that dial connects to. user is the user that it sends requests for, or
// empty; a runner trusts it only from the manager.
func NewClient(dial func(context.Context) (net.Conn, error), user string) *Client {
	return &Client{dial, user}
}

// Dial returns a client for the socket at a path. The process that listens there must belong to this user, unless
// this user is root. The error is ErrNotRunning if no process listens.
func Dial(ctx context.Context, path string) (*Client, error) {
	c := NewClient(func(ctx context.Context) (net.Conn, error) { return Connect(ctx, path) }, "")
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	return c, conn.Close()
}

// AnswerTime bounds a request to a runner. It is longer than the runner's own limit for any action.
const AnswerTime = 45 * time.Second

// Connect returns a connection with the socket at a path, with the checks of Dial.
func Connect(ctx context.Context, path string) (net.Conn, error) {
	conn, err := dialSocket(ctx, path, "")
	if err != nil {
		return nil, asNotRunning(path, err)
	}
	if err := isOwn(conn, path); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// request is a request in progress.
type request struct {
	*http.Response
	conn net.Conn
	in   *bufio.Reader
	stop func() bool // stops watching the context
}

func (r *request) closeRequest() {
	r.stop()
	_ = r.conn.Close() // everything that matters has been read
}

// doRequest sends a request and reads the header of the answer. When ctx is done, reading and writing fail with its
// cause.
func (c *Client) doRequest(ctx context.Context, method, path string, body []byte, header http.Header) (*request,
	error,
) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	r := &request{conn: conn, in: bufio.NewReader(conn), stop: context.AfterFunc(ctx, func() { _ = conn.Close() })}
	req, err := http.NewRequestWithContext(ctx, method, "http://vm"+path, bytes.NewReader(body))
	if err == nil {
		for name, values := range header {
			req.Header[name] = values
		}
		if c.user != "" {
			req.Header.Set(userHeader, printable.Line(c.user))
		}
		_ = req.Write(conn) // a server with too many clients answers without reading
		r.Response, err = http.ReadResponse(r.in, req)
	}
	if err != nil {
		r.closeRequest()
		return nil, fmt.Errorf("%w: %w", errNoAnswer, causeOf(ctx, err))
	}
	if r.StatusCode >= http.StatusBadRequest {
		defer r.closeRequest()
		return nil, causeOf(ctx, refusalIn(r.Response))
	}
	return r, nil
}

// errNoAnswer reports that there was no answer: the request may have been carried out.
var errNoAnswer = errors.New("send a request to the runner")

// causeOf returns the context's error if it explains err.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// refusalIn returns the error that an answer reports.
func refusalIn(r *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return fmt.Errorf("read the runner's answer: %w", err)
	}
	var body answerError
	if json.Unmarshal(text, &body) != nil || body.Error == "" {
		body.Error = r.Status + ": " + string(bytes.TrimSpace(text))
	}
	if body.Class != "" {
		return &qmp.Error{Class: body.Class, Desc: body.Error}
	}
	return &AnswerError{Code: r.StatusCode, Message: body.Error}
}

// maxAnswer limits the bytes of an answer, because a guest that has broken out can answer instead of its runner.
// A plan has up to 32 MiB.
const maxAnswer = 64 << 20

// copyTo does a request and copies the answer's body.
func (c *Client) copyTo(ctx context.Context, w io.Writer, method, path string, body []byte) error {
	r, err := c.doRequest(ctx, method, path, body, nil)
	if err != nil {
		return err
	}
	defer r.closeRequest()
	n, err := io.Copy(w, io.LimitReader(r.Body, maxAnswer+1))
	if err != nil {
		return fmt.Errorf("read the runner's answer: %w", causeOf(ctx, err))
	}
	if n > maxAnswer {
		return fmt.Errorf("read the runner's answer: it is longer than %d MiB", maxAnswer>>20)
	}
	return nil
}

func (c *Client) getJSON(ctx context.Context, path string, into any) error {
	var text bytes.Buffer
	if err := c.copyTo(ctx, &text, http.MethodGet, path, nil); err != nil {
		return err
	}
	if err := json.Unmarshal(text.Bytes(), into); err != nil {
		return fmt.Errorf("read the runner's answer: %w", err)
	}
	return nil
}

// postJSON sends a request with a value as its answer.
func (c *Client) postJSON(ctx context.Context, path string, body []byte, into any) error {
	var text bytes.Buffer
	if err := c.copyTo(ctx, &text, http.MethodPost, path, body); err != nil {
		return err
	}
	if err := json.Unmarshal(text.Bytes(), into); err != nil {
		return fmt.Errorf("read the runner's answer: %w", err)
	}
	return nil
}

// Status returns the status of the VM.
func (c *Client) Status(ctx context.Context) (s status.Status, err error) {
	err = c.getJSON(ctx, "/v1/status", &s)
	return s, err
}

// Pending returns the changes that need a restart.
func (c *Client) Pending(ctx context.Context) (changes []status.Change, err error) {
	err = c.getJSON(ctx, "/v1/pending", &changes)
	return changes, err
}

// Act requests an action. Stop and Kill don't wait for the end of the VM.
func (c *Client) Act(ctx context.Context, what Action) error {
	path := "/v1/" + string(what)
	if what == Kill {
		path = "/v1/stop?force=true"
	}
	return c.copyTo(ctx, io.Discard, http.MethodPost, path, nil)
}

// Plan writes the plan in a form: text, why, argv, shell or json.
func (c *Client) Plan(ctx context.Context, w io.Writer, form string) error {
	return c.copyTo(ctx, w, http.MethodGet, "/v1/plan?form="+url.QueryEscape(form), nil)
}

// Devices returns the devices of the machine with their names in the guest.
func (c *Client) Devices(ctx context.Context) (r hardware.Report, err error) {
	err = c.getJSON(ctx, "/v1/devices", &r)
	return r, err
}

// Source returns a module of the VM's type. The origins in the plan name the modules.
func (c *Client) Source(ctx context.Context, module string) (string, error) {
	var text bytes.Buffer
	err := c.copyTo(ctx, &text, http.MethodGet, "/v1/source?module="+url.QueryEscape(module), nil)
	return text.String(), err
}

// Usage returns the VM's usage during the last hour, the oldest first.
func (c *Client) Usage(ctx context.Context) (list []Usage, err error) {
	err = c.getJSON(ctx, "/v1/usage", &list)
	return list, err
}

// History returns the latest happenings of the VM that this runner has seen, the oldest first.
func (c *Client) History(ctx context.Context) (list []status.Happening, err error) {
	err = c.getJSON(ctx, "/v1/history", &list)
	return list, err
}

// Metrics writes the metrics in Prometheus' text format.
func (c *Client) Metrics(ctx context.Context, w io.Writer) error {
	return c.copyTo(ctx, w, http.MethodGet, "/v1/metrics", nil)
}

// Screenshot writes the screen as PNG.
func (c *Client) Screenshot(ctx context.Context, w io.Writer) error {
	return c.copyTo(ctx, w, http.MethodGet, "/v1/screenshot", nil)
}

// QMP runs a QMP command and returns QEMU's result. The error is a *qmp.Error if QEMU refuses.
func (c *Client) QMP(ctx context.Context, command qmp.Command) (json.RawMessage, error) {
	sent := commandBody{Execute: command.Execute}
	var err error
	if command.Arguments != nil {
		if sent.Arguments, err = json.Marshal(command.Arguments); err != nil {
			return nil, fmt.Errorf("encode the arguments of %s: %w", command.Execute, err)
		}
	}
	body, err := json.Marshal(sent)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", command.Execute, err)
	}
	var text bytes.Buffer
	if err := c.copyTo(ctx, &text, http.MethodPost, "/v1/qmp?timeout="+maxTime.String(), body); err != nil {
		return nil, err
	}
	var answer struct {
		Return json.RawMessage `json:"return"`
	}
	if err := json.Unmarshal(text.Bytes(), &answer); err != nil {
		return nil, fmt.Errorf("read the answer to %s: %w", command.Execute, err)
	}
	return answer.Return, nil
}
