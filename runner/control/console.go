package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"vmop/runner/status"
)

// ScrollBack is the amount of the guest's output that is kept, in bytes. A new viewer receives it first.
const ScrollBack = 64 << 10

// Mode is what a viewer of the serial console may do.
type Mode string

// The modes.
const (
	// Watch only reads.
	Watch Mode = "watch"
	// Type reads and writes. It is refused while another viewer types.
	Type Mode = "type"
	// Take is like Type, but disconnects a viewer who types.
	Take Mode = "take"
)

// The text that informs a viewer that another viewer has taken the console.
const (
	takenOver = "\r\n[console taken over by "
	noticeEnd = "]\r\n"
)

// TakenOver reports whether a stream that ended with this text ended because another client took the console.
func TakenOver(end []byte) bool {
	i := bytes.LastIndex(end, []byte(takenOver))
	return i >= 0 && bytes.HasSuffix(end[i:], []byte(noticeEnd))
}

// inUse is the error for a console or screen while another client is typing on it.
type inUse struct {
	what string
	by   Who
}

func (e inUse) Error() string { return "the " + e.what + " is in use by " + e.by.String() }

// modeOf returns the requested mode.
func modeOf(r *http.Request) (Mode, error) {
	switch mode := Mode(r.URL.Query().Get("mode")); mode {
	case "":
		return Type, nil
	case Watch, Type, Take:
		return mode, nil
	default:
		return "", badRequest{fmt.Errorf("mode=%q: must be watch, type or take", mode)}
	}
}

// shownMode returns the mode in the form of the status.
func (m Mode) shownMode() string {
	if m == Watch {
		return status.ModeWatch
	}
	return status.ModeType
}

// A Console is the guest's serial console, which the runner shares among all viewers. It reads the guest's output
// immediately, so that viewers never block the guest. A viewer that is too slow loses output, and is sent the
// number of lost bytes.
type Console struct {
	publish func(status.Update)
	writing sync.Mutex // held during a write to the guest

	mu      sync.Mutex
	guest   net.Conn      // nil before Attach and after its end
	read    chan struct{} // closed when all output of guest is read; nil before Attach
	refusal error         // set by Refuse
	ended   bool
	ring    []byte // byte i of the output is at i % ScrollBack
	total   int64  // bytes of output so far
	viewers map[*Viewer]struct{}
	writer  *Viewer
}

func newConsole(publish func(status.Update)) *Console {
	return &Console{publish: publish, viewers: map[*Viewer]struct{}{}}
}

// Attach begins to read the guest's output from a connection. The Console owns the connection from now on. The
// viewers' streams end with it.
func (c *Console) Attach(guest net.Conn) {
	c.mu.Lock()
	if old := c.guest; old != nil {
		_ = old.Close()
	}
	read := make(chan struct{})
	c.guest, c.read, c.ended, c.refusal = guest, read, false, nil
	if c.ring == nil {
		c.ring = make([]byte, ScrollBack)
	}
	c.mu.Unlock()
	go func() {
		defer close(read)
		c.readOutput(guest)
	}()
}

// outputTime limits the wait for the last output of a guest, after its QEMU has ended.
const outputTime = 200 * time.Millisecond

// awaitOutput waits until the guest's last output is read, if its QEMU has ended. A QEMU that keeps running keeps the
// connection open.
func (c *Console) awaitOutput(ctx context.Context) {
	c.mu.Lock()
	read := c.read
	c.mu.Unlock()
	if read == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, outputTime)
	defer cancel()
	select {
	case <-read:
	case <-ctx.Done():
	}
}

// Refuse makes Open fail for a reason, until Attach.
func (c *Console) Refuse(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refusal = Refusal(reason)
}

// readOutput reads the guest's output until its end.
func (c *Console) readOutput(guest net.Conn) {
	buf := make([]byte, 4<<10)
	for {
		n, err := guest.Read(buf)
		c.putOutput(buf[:n])
		if err != nil {
			c.endConnection(guest)
			return
		}
	}
}

func (c *Console) putOutput(data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(data) > 0 {
		n := copy(c.ring[c.total%ScrollBack:], data)
		c.total += int64(n)
		data = data[n:]
	}
	c.wakeAll()
}

// endConnection handles the end of a connection to the guest; nil means any connection.
func (c *Console) endConnection(guest net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if guest != nil && c.guest != guest {
		return
	}
	if c.guest != nil {
		_ = c.guest.Close()
	}
	c.guest, c.ended = nil, true
	c.wakeAll()
}

func (c *Console) wakeAll() {
	for v := range c.viewers {
		v.signalReader()
	}
}

// Open returns a viewer, which must be closed. It fails if another viewer has the mode Type, unless both belong
// to the same user.
func (c *Console) Open(mode Mode, client Who) (*Viewer, error) {
	v := &Viewer{console: c, client: client, mode: mode.shownMode(), wake: make(chan struct{}, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refusal != nil {
		return nil, c.refusal
	}
	if mode != Watch {
		if other := c.writer; other != nil {
			if mode != Take && !client.isSameUser(other.client) {
				return nil, inUse{"console", other.client}
			}
			other.leaveWithNotice(takenOver + client.String() + noticeEnd)
			c.interruptWrite()
		}
		c.writer = v
	}
	v.at = max(0, c.total-ScrollBack)
	c.viewers[v] = struct{}{}
	c.publish(v.openedStatus())
	return v, nil
}

// interruptWrite ends a write that is waiting for the guest.
func (c *Console) interruptWrite() {
	if c.guest != nil {
		_ = c.guest.SetWriteDeadline(time.Unix(1, 0)) // a unix socket has deadlines
	}
}

// ErrNotWriter is the error of Write for a viewer that only watches or was taken over.
var ErrNotWriter = errors.New("another client is typing on this console")

// writeFor writes for v if v may write. It waits while the guest doesn't read.
func (c *Console) writeFor(v *Viewer, data []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	guest := c.guest
	switch {
	case c.writer != v:
		c.mu.Unlock()
		return 0, ErrNotWriter
	case guest == nil:
		c.mu.Unlock()
		return 0, io.ErrClosedPipe
	}
	_ = guest.SetWriteDeadline(time.Time{})
	c.mu.Unlock()
	n, err := guest.Write(data)
	if err != nil {
		return n, fmt.Errorf("write to the serial console: %w", err)
	}
	return n, nil
}

// A Viewer is a client of the serial console. One goroutine may read while another writes.
type Viewer struct {
	console *Console
	client  Who
	mode    string // in the status
	wake    chan struct{}

	// Guarded by console.mu.
	at     int64  // the next byte to read
	notice []byte // to be read before it
	gone   bool   // only the notice is left to read
}

func (v *Viewer) openedStatus() status.ConsoleOpened {
	return status.ConsoleOpened{Kind: status.Serial, Client: v.client.Client, User: v.client.User, Mode: v.mode}
}

// leaveWithNotice disconnects a viewer, after a notice.
func (v *Viewer) leaveWithNotice(notice string) {
	v.notice, v.gone = append(v.notice, notice...), true
	v.signalReader()
}

func (v *Viewer) signalReader() {
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// Read returns the guest's output, beginning with the scroll-back. It waits while there is no output. The error
// is io.EOF when the console has ended or another viewer has taken it over.
func (v *Viewer) Read(p []byte) (int, error) {
	for {
		n, err := v.pollOutput(p)
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		<-v.wake
	}
}

// pollOutput reads without waiting.
func (v *Viewer) pollOutput(p []byte) (int, error) {
	c := v.console
	c.mu.Lock()
	defer c.mu.Unlock()
	if behind := c.total - v.at; behind > ScrollBack && !v.gone {
		skipped := behind - ScrollBack/2 // so that it does not skip again immediately
		v.at += skipped
		v.notice = fmt.Appendf(v.notice, "\r\n[%d bytes skipped]\r\n", skipped)
	}
	switch {
	case len(v.notice) > 0:
		n := copy(p, v.notice)
		v.notice = v.notice[n:]
		return n, nil
	case v.gone:
		return 0, io.EOF
	case v.at < c.total:
		from := v.at % ScrollBack
		n := copy(p, c.ring[from:min(ScrollBack, from+c.total-v.at)])
		v.at += int64(n)
		return n, nil
	case c.ended:
		return 0, io.EOF
	}
	return 0, nil
}

// Write types on the console. It waits while the guest doesn't read, until Close or a take-over. The error is
// ErrNotWriter if the viewer may not write.
func (v *Viewer) Write(p []byte) (int, error) { return v.console.writeFor(v, p) }

// Close ends the viewer, and a Read or Write in progress.
func (v *Viewer) Close() error {
	c := v.console
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, open := c.viewers[v]; !open {
		return nil
	}
	delete(c.viewers, v)
	if c.writer == v {
		c.writer = nil
		c.interruptWrite()
	}
	v.gone, v.notice = true, nil
	v.signalReader()
	c.publish(status.ConsoleClosed(v.openedStatus()))
	return nil
}
