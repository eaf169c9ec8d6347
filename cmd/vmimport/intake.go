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
	hangupTick   = 100              // between two checks whether the import was canceled, in milliseconds
	hangupTime   = 10 * time.Second // how long to wait for a sender that has received its answer
	abandonTime  = 30 * time.Second // idle time after which another upload may replace an upload in pieces
	longestPause = time.Hour        // between two pieces
)

// intake receives an image at a socket or at a port, and imports it. The sender can repeat the upload if the
// transfer fails or the data are not an image.
type intake struct {
	i       diskimage.Import
	r       *reporter
	begun   chan *upload // for the import, one at a time
	serving sync.WaitGroup

	mu     sync.Mutex
	now    *upload // the last upload started; nil: none
	closed bool    // refuse new uploads
}

// upload is an image that a client sends.
type upload struct {
	transfer.Announcement // of its first piece

	in   *io.PipeWriter
	out  *io.PipeReader
	done chan struct{} // closed when there is an outcome
	outcome

	turn sync.Mutex // held by the connection that transfers data

	mu    sync.Mutex
	conn  net.Conn // the connection that transfers data
	at    int64    // bytes passed to the import
	heard time.Time
	whole bool // all bytes have arrived
}

// receiveUpload waits for an image and imports it.
func receiveUpload(
	ctx context.Context, listeners []net.Listener, i diskimage.Import, r *reporter,
) (diskimage.Result, error) {
	n := &intake{i: i, r: r, begun: make(chan *upload, 1)}
	ctx, end := context.WithCancel(ctx)
	defer end()
	broken := make(chan error, len(listeners))
	for _, l := range listeners {
		context.AfterFunc(ctx, func() { _ = l.Close() })
		go func() { broken <- n.acceptUploads(ctx, l) }()
	}
	r.reportWait(nil)
	for {
		select {
		case <-ctx.Done():
			return diskimage.Result{}, diskimage.Refuse(diskimage.Canceled, "the import was canceled: %w", ctx.Err())
		case err := <-broken:
			return diskimage.Result{}, fmt.Errorf("wait for an upload: %w", err)
		case u := <-n.begun:
			result, err := n.importUpload(ctx, u)
			if !isRepeatable(diskimage.ReasonOf(err)) {
				for _, l := range listeners {
					_ = l.Close()
				}
				n.awaitAnswers()
				return result, err
			}
			r.reportWait(err)
		}
	}
}

// acceptUploads serves connections until the listener is closed.
func (n *intake) acceptUploads(ctx context.Context, l net.Listener) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		n.serving.Go(func() { n.serveUpload(ctx, conn) })
	}
}

// importUpload imports an upload.
func (n *intake) importUpload(ctx context.Context, u *upload) (result diskimage.Result, err error) {
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
	u.outcome = importOutcome(result, err)
	close(u.done)
	return result, err
}

// awaitAnswers waits for senders that have received their answer or are about to receive it.
func (n *intake) awaitAnswers() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	select {
	case u := <-n.begun: // arrived too late
		u.outcome = importOutcome(diskimage.Result{}, diskimage.Refuse(diskimage.Canceled, "the import has ended"))
		close(u.done)
	default:
	}
	n.serving.Wait()
}

// isRepeatable reports whether another upload could succeed. An image that is too large is not repeatable, because
// it needs a larger target.
func isRepeatable(r diskimage.Reason) bool {
	switch r {
	case diskimage.TransferBroken, diskimage.SourceStalled, diskimage.InvalidSource, diskimage.ChecksumMismatch,
		diskimage.UnsupportedFormat, diskimage.ImageCorrupt, diskimage.ImageHasBackingFile,
		diskimage.ImageHasExternalData, diskimage.ImageEncrypted, diskimage.ImageEmpty:
		return true
	}
	return false
}

// serveUpload receives data from a connection and answers.
func (n *intake) serveUpload(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	reader := bufio.NewReaderSize(conn, transfer.MostLine)
	a, err := readAnnouncement(conn, reader)
	if err != nil {
		n.r.log.Warn("an upload was not understood", "err", err)
		sendAnswer(conn, importOutcome(diskimage.Result{}, err))
		return
	}
	u, why := n.joinUpload(a)
	switch {
	case u == nil:
		sendAnswer(conn, why)
	case a.ID == "":
		u.receiveBytes(conn, reader, -1)
		<-u.done
		sendAnswer(conn, u.outcome)
	default:
		u.receivePiece(ctx, conn, reader, a)
	}
}

// joinUpload returns the upload that an announcement refers to, and starts it if necessary. If it returns nil, the
// second result is the answer for the sender.
func (n *intake) joinUpload(a transfer.Announcement) (*upload, any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	u := n.now
	known := u != nil && u.ID == a.ID && a.ID != "" && u.Size == a.Size && u.Checksum == a.Checksum
	switch {
	case known && a.Cancel && !u.hasEnded():
		u.abandonUpload(diskimage.Refuse(diskimage.TransferBroken, "the upload was canceled"))
		return u, nil
	case known && (a.From > 0 || !u.hasEnded()):
		return u, nil
	case a.From > 0, a.Cancel, n.closed:
		return nil, transfer.Answer{Reason: transfer.Unknown, Message: "there is no such upload any more"}
	case u != nil && !u.hasEnded() && !u.isAbandoned():
		return nil, transfer.Answer{Reason: transfer.Busy, Message: "another upload is being received"}
	case u != nil && !u.hasEnded():
		u.abandonUpload(diskimage.Refuse(diskimage.TransferBroken, "another upload has taken its place"))
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

// hasEnded reports whether the upload has an outcome.
func (u *upload) hasEnded() bool {
	select {
	case <-u.done:
		return true
	default:
		return false
	}
}

// isAbandoned reports whether the sender has apparently given up.
func (u *upload) isAbandoned() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ID != "" && !u.whole && time.Since(u.heard) > abandonTime
}

// abandonUpload ends an incomplete upload.
func (u *upload) abandonUpload(why error) {
	_ = u.in.CloseWithError(why)
	u.setConnection(nil)
}

// setConnection makes conn the connection that transfers data, and ends the previous connection.
func (u *upload) setConnection(conn net.Conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.conn != nil {
		_ = u.conn.SetReadDeadline(time.Unix(1, 0))
	}
	u.conn = conn
}

// bytesReached returns the number of bytes passed to the import, and whether these are all bytes.
func (u *upload) bytesReached() (int64, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.at, u.whole
}

// receiveBytes passes length bytes of a connection to the import, or all bytes if length is negative. It stops reading
// when the import has ended, and then returns true.
func (u *upload) receiveBytes(conn net.Conn, r io.Reader, length int64) (lost bool) {
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
			return u.hasEnded()
		case errors.Is(err, io.EOF):
			_ = u.in.Close()
			return false
		case err != nil:
			_ = u.in.CloseWithError(err)
			return false
		}
	}
}

// receivePiece receives a piece of an upload, and answers with the state of the upload.
func (u *upload) receivePiece(ctx context.Context, conn net.Conn, r io.Reader, a transfer.Announcement) {
	u.setConnection(conn)
	u.turn.Lock()
	at, whole := u.bytesReached()
	if !whole && !u.hasEnded() && !a.Cancel {
		sendLine(conn, transfer.Answer{Reason: transfer.Continue, At: at})
		if a.From != at || a.Length == 0 {
			u.turn.Unlock()
			return // the answer has told the sender
		}
		lost := u.receiveBytes(conn, r, min(a.Length, u.Size-at))
		if at, whole = u.bytesReached(); whole {
			_ = u.in.Close() // the import need not wait for more data
		}
		if lost {
			<-u.done
		} else if at < a.From+a.Length && !whole {
			u.turn.Unlock()
			return // the connection broke
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
	case u.hasEnded():
		sendAnswer(conn, transfer.Answer{Reason: u.Reason, Message: u.outcome.Message, At: at})
	case whole:
		sendAnswer(conn, transfer.Answer{Reason: transfer.Received, At: at})
	default:
		sendAnswer(conn, transfer.Answer{Reason: transfer.Continue, At: at})
	}
}

// sendLine sends a line to the sender.
func sendLine(conn net.Conn, said any) {
	text, err := json.Marshal(said)
	if err == nil && conn.SetWriteDeadline(time.Now().Add(hangupTime)) == nil {
		_, _ = conn.Write(append(text, '\n')) // the sender may have gone
	}
}

// sendAnswer sends the state of an upload, waits until the sender has received it, and closes the connection.
func sendAnswer(conn net.Conn, said any) {
	sendLine(conn, said)
	if local, ok := conn.(*net.UnixConn); ok {
		awaitHangup(local)
	} else if conn.SetReadDeadline(time.Now().Add(hangupTime)) == nil {
		_, _ = io.Copy(io.Discard, conn)
	}
}

// awaitHangup waits until the sender closes the connection. In a container, the sender would end together with
// this process, which is PID 1, and the user who started the sender would not see the answer.
func awaitHangup(conn *net.UnixConn) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return
	}
	for end := time.Now().Add(hangupTime); time.Now().Before(end); {
		gone := false
		err := raw.Control(func(fd uintptr) {
			// The sender has already closed its writing half. Only POLLHUP indicates that it has closed both
			// halves.
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
		return a, diskimage.Refuse(diskimage.InvalidSource, "the upload has neither size nor checksum")
	case a.From < 0 || a.Length < 0 || a.Size > 0 && a.From > a.Size:
		return a, diskimage.Refuse(diskimage.InvalidSource, "the upload has no %d bytes at %d", a.Length, a.From)
	}
	return a, conn.SetReadDeadline(time.Time{})
}
