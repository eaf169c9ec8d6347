package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"vmop/diskimage"
	"vmop/diskimage/transfer"
)

const (
	hangupTick   = 100              // between two looks whether the import is canceled, in milliseconds
	hangupTime   = 10 * time.Second // for which a sender is waited that has its answer
	abandonTime  = 30 * time.Second // without a byte after which another upload may take the place of one in pieces
	longestPause = time.Hour        // between two pieces
)

// An intake takes an image that is sent to it, at a socket or at a port, and imports it. One whose transfer breaks, or
// that is no image, can be sent again.
type intake struct {
	i       diskimage.Import
	r       *reporter
	begun   chan *upload // for the import, one at a time
	serving sync.WaitGroup

	mu     sync.Mutex
	now    *upload // the last one that has begun; nil: none has
	closed bool    // none begins any more
}

// An upload is an image that is sent.
type upload struct {
	transfer.Announcement // of its first piece

	in   *io.PipeWriter
	out  *io.PipeReader
	done chan struct{} // closed when there is an outcome
	outcome

	turn sync.Mutex // held by who brings bytes

	mu    sync.Mutex
	conn  net.Conn // of who brings bytes
	at    int64    // bytes that the import has taken
	heard time.Time
	whole bool // all bytes are there
}

// receiveUpload waits for an image, and imports it.
func receiveUpload(
	ctx context.Context, listeners []net.Listener, i diskimage.Import, r *reporter,
) (diskimage.Result, error) {
	n := &intake{i: i, r: r, begun: make(chan *upload, 1)}
	ctx, end := context.WithCancel(ctx)
	defer end()
	broken := make(chan error, len(listeners))
	for _, l := range listeners {
		context.AfterFunc(ctx, func() { _ = l.Close() })
		go func() { broken <- n.accept(ctx, l) }()
	}
	r.wait(nil)
	for {
		select {
		case <-ctx.Done():
			return diskimage.Result{}, diskimage.Refuse(diskimage.Canceled, "the import was canceled: %w", ctx.Err())
		case err := <-broken:
			return diskimage.Result{}, fmt.Errorf("wait for an upload: %w", err)
		case u := <-n.begun:
			result, err := n.run(ctx, u)
			if !repeatable(diskimage.ReasonOf(err)) {
				for _, l := range listeners {
					_ = l.Close()
				}
				n.end()
				return result, err
			}
			r.wait(err)
		}
	}
}

// accept serves who connects, until the listener is closed.
func (n *intake) accept(ctx context.Context, l net.Listener) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		n.serving.Go(func() { n.serve(ctx, conn) })
	}
}

// run imports an upload.
func (n *intake) run(ctx context.Context, u *upload) (result diskimage.Result, err error) {
	i := n.i
	if u.Checksum != "" {
		i.Checksum, err = diskimage.ParseChecksum(u.Checksum)
	}
	if u.ID != "" {
		i.Limits.Stall = longestPause
	}
	if err == nil {
		i.Source = diskimage.Reader{R: u.out, Size: u.Size}
		result, err = i.Run(ctx)
	}
	_ = u.out.Close()
	u.outcome = outcomeOf(result, err)
	close(u.done)
	return result, err
}

// end waits for those who have an answer, or are about to have it.
func (n *intake) end() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	select {
	case u := <-n.begun: // has come when it was too late
		u.outcome = outcomeOf(diskimage.Result{}, diskimage.Refuse(diskimage.Canceled, "the import has ended"))
		close(u.done)
	default:
	}
	n.serving.Wait()
}

// repeatable reports whether another upload may be better. For a larger image the target has to be larger.
func repeatable(r diskimage.Reason) bool {
	switch r {
	case diskimage.TransferBroken, diskimage.SourceStalled, diskimage.InvalidSource, diskimage.ChecksumMismatch,
		diskimage.UnsupportedFormat, diskimage.ImageCorrupt, diskimage.ImageHasBackingFile,
		diskimage.ImageHasExternalData, diskimage.ImageEncrypted, diskimage.ImageEmpty:
		return true
	}
	return false
}

// serve takes what comes on a connection, and answers.
func (n *intake) serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	reader := bufio.NewReaderSize(conn, transfer.MostLine)
	a, err := readAnnouncement(conn, reader)
	if err != nil {
		n.r.log.Warn("an upload was not understood", "err", err)
		answer(conn, outcomeOf(diskimage.Result{}, err))
		return
	}
	u, why := n.join(a)
	switch {
	case u == nil:
		answer(conn, why)
	case a.ID == "":
		u.receive(conn, reader, -1)
		<-u.done
		answer(conn, u.outcome)
	default:
		u.piece(ctx, conn, reader, a)
	}
}

// join returns the upload that an announcement is about, which begins if it has not; nil: there is none.
func (n *intake) join(a transfer.Announcement) (*upload, any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	u := n.now
	known := u != nil && u.ID == a.ID && a.ID != "" && u.Size == a.Size && u.Checksum == a.Checksum
	switch {
	case known && a.Cancel && !u.ended():
		u.abandon(diskimage.Refuse(diskimage.TransferBroken, "the upload was canceled"))
		return u, nil
	case known && (a.From > 0 || !u.ended()):
		return u, nil
	case a.From > 0, a.Cancel, n.closed:
		return nil, transfer.Answer{Reason: transfer.Unknown, Message: "there is no such upload any more"}
	case u != nil && !u.ended() && !u.abandoned():
		return nil, transfer.Answer{Reason: transfer.Busy, Message: "another upload is being received"}
	case u != nil && !u.ended():
		u.abandon(diskimage.Refuse(diskimage.TransferBroken, "another upload has taken its place"))
	}
	u = &upload{Announcement: a, done: make(chan struct{}), heard: time.Now()}
	u.out, u.in = io.Pipe()
	select {
	case n.begun <- u:
		n.now = u
		return u, nil
	default:
		return nil, transfer.Answer{Reason: transfer.Busy, Message: "another upload is beginning"}
	}
}

// ended reports whether there is an outcome.
func (u *upload) ended() bool {
	select {
	case <-u.done:
		return true
	default:
		return false
	}
}

// abandoned reports whether no one seems to bring the rest.
func (u *upload) abandoned() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ID != "" && !u.whole && time.Since(u.heard) > abandonTime
}

// abandon ends an upload before its end.
func (u *upload) abandon(why error) {
	_ = u.in.CloseWithError(why)
	u.bring(nil)
}

// bring makes a connection the one that brings bytes, and ends the one before.
func (u *upload) bring(conn net.Conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.conn != nil {
		_ = u.conn.SetReadDeadline(time.Unix(1, 0))
	}
	u.conn = conn
}

// reached returns how many bytes the import has taken, and whether these are all.
func (u *upload) reached() (int64, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.at, u.whole
}

// receive passes on so many bytes of a connection, or all that come if that is negative. It reads no more when the
// import has ended: lost.
func (u *upload) receive(conn net.Conn, r io.Reader, length int64) (lost bool) {
	received := make(chan struct{})
	defer close(received)
	go func() {
		select {
		case <-u.done:
			_ = conn.SetReadDeadline(time.Unix(1, 0))
		case <-received:
		}
	}()
	if length >= 0 {
		r = io.LimitReader(r, length)
	}
	buf := make([]byte, 256<<10)
	for {
		got, err := r.Read(buf)
		taken, refused := u.in.Write(buf[:got])
		u.mu.Lock()
		u.at, u.heard = u.at+int64(taken), time.Now()
		u.whole = u.whole || u.Size > 0 && u.at >= u.Size
		u.mu.Unlock()
		switch {
		case refused != nil:
			return true
		case length >= 0 && err != nil:
			return u.ended()
		case errors.Is(err, io.EOF):
			_ = u.in.Close()
			return false
		case err != nil:
			_ = u.in.CloseWithError(err)
			return false
		}
	}
}

// piece takes a piece of an upload, and says what has become of that.
func (u *upload) piece(ctx context.Context, conn net.Conn, r io.Reader, a transfer.Announcement) {
	u.bring(conn)
	u.turn.Lock()
	at, whole := u.reached()
	if !whole && !u.ended() && !a.Cancel {
		reply(conn, transfer.Answer{Reason: transfer.Continue, At: at})
		if a.From != at || a.Length == 0 {
			u.turn.Unlock()
			return // which the sender knows
		}
		lost := u.receive(conn, r, min(a.Length, u.Size-at))
		if at, whole = u.reached(); whole {
			_ = u.in.Close() // the import need not wait for more
		}
		if lost {
			<-u.done
		} else if at < a.From+a.Length && !whole {
			u.turn.Unlock()
			return // it broke
		}
	}
	u.turn.Unlock()
	if whole || a.Cancel {
		select {
		case <-u.done:
		case <-time.After(transfer.WaitTime):
		case <-ctx.Done():
		}
	}
	switch {
	case u.ended():
		answer(conn, transfer.Answer{Reason: u.Reason, Message: u.outcome.Message, At: at})
	case whole:
		answer(conn, transfer.Answer{Reason: transfer.Received, At: at})
	default:
		answer(conn, transfer.Answer{Reason: transfer.Continue, At: at})
	}
}

// reply sends a line to who sends.
func reply(conn net.Conn, said any) {
	text, err := json.Marshal(said)
	if err == nil && conn.SetWriteDeadline(time.Now().Add(hangupTime)) == nil {
		_, _ = conn.Write(append(text, '\n')) // whoever sent it may have gone
	}
}

// answer says what has become of an upload, and waits until the sender has the answer, and closes the connection.
func answer(conn net.Conn, said any) {
	reply(conn, said)
	if local, ok := conn.(*net.UnixConn); ok {
		awaitHangup(local)
	} else if conn.SetReadDeadline(time.Now().Add(hangupTime)) == nil {
		_, _ = io.Copy(io.Discard, conn)
	}
}

// awaitHangup waits until the sender closes the connection. In a container it would be ended with
// this process, which is the first one, and who has started it would not learn the answer.
func awaitHangup(conn *net.UnixConn) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return
	}
	for end := time.Now().Add(hangupTime); time.Now().Before(end); {
		gone := false
		err := raw.Control(func(fd uintptr) {
			// The sender has closed its writing half before: only POLLHUP tells that it has closed both.
			fds := []unix.PollFd{{Fd: int32(fd)}}
			_, pollErr := unix.Poll(fds, hangupTick)
			gone = fds[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0 || pollErr != nil && pollErr != unix.EINTR
		})
		if gone || err != nil {
			return
		}
	}
}

func readAnnouncement(conn net.Conn, r *bufio.Reader) (a transfer.Announcement, err error) {
	if err := conn.SetReadDeadline(time.Now().Add(transfer.LineTime)); err != nil {
		return a, err
	}
	line, err := r.ReadSlice('\n')
	if err == nil {
		err = json.Unmarshal(line, &a)
	}
	if err == nil {
		_, err = diskimage.ParseChecksum(a.Checksum)
	}
	switch {
	case err != nil:
		return a, diskimage.Refuse(diskimage.InvalidSource, "read how large the upload is: %w", err)
	case a.Size <= 0 && (a.Checksum == "" || a.ID != ""):
		return a, diskimage.Refuse(diskimage.InvalidSource, "the upload says neither its size nor its checksum")
	case a.From < 0 || a.Length < 0 || a.Size > 0 && a.From > a.Size:
		return a, diskimage.Refuse(diskimage.InvalidSource, "the upload has no %d bytes at %d", a.Length, a.From)
	}
	return a, conn.SetReadDeadline(time.Time{})
}
