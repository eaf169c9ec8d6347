package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"vmop/diskimage"
)

// An announcement is the first line of an upload. What follows are the bytes of the image, until
// the writing half of the connection is closed; the answer is an outcome.
type announcement struct {
	Size     int64  `json:"size,omitempty"`     // bytes; 0 if it is not known
	Checksum string `json:"checksum,omitempty"` // as diskimage.ParseChecksum reads it
}

const (
	mostAnnouncement = 4 << 10
	announcementTime = 10 * time.Second
	hangupTick       = 100 // between two looks whether the import is canceled, in milliseconds
)

// receiveUpload waits at a socket for an image, and imports it. One whose transfer breaks, or that is no
// image, can be sent again.
func receiveUpload(ctx context.Context, path string, i diskimage.Import, r *reporter) (diskimage.Result, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) { // of one that was killed
		return diskimage.Result{}, err
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return diskimage.Result{}, fmt.Errorf("wait for an upload: %w", err)
	}
	defer l.Close()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	r.wait(nil)
	for {
		conn, err := l.Accept()
		if err != nil && ctx.Err() != nil {
			return diskimage.Result{}, diskimage.Refuse(diskimage.Canceled, "the import was canceled: %w", ctx.Err())
		} else if err != nil {
			return diskimage.Result{}, fmt.Errorf("wait for an upload: %w", err)
		}
		result, err := importFrom(ctx, conn.(*net.UnixConn), i)
		if !repeatable(diskimage.ReasonOf(err)) {
			return result, err
		}
		r.wait(err)
	}
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

// importFrom imports what comes on a connection, and answers.
func importFrom(ctx context.Context, conn *net.UnixConn, i diskimage.Import) (result diskimage.Result, err error) {
	reader := bufio.NewReaderSize(conn, mostAnnouncement)
	a, err := readAnnouncement(conn, reader)
	if err == nil && a.Checksum != "" {
		i.Checksum, err = diskimage.ParseChecksum(a.Checksum)
	}
	if err == nil {
		i.Source = diskimage.Reader{R: reader, Size: a.Size}
		// A reader that waits is left behind until the connection is closed.
		result, err = i.Run(ctx)
	}
	text, marshalErr := json.Marshal(outcomeOf(result, err))
	if marshalErr != nil {
		return result, marshalErr
	}
	if err := conn.SetWriteDeadline(time.Now().Add(announcementTime)); err == nil {
		_, _ = conn.Write(append(text, '\n')) // whoever sent it may have gone
		awaitHangup(ctx, conn)
	}
	return result, errors.Join(err, conn.Close())
}

// awaitHangup waits until the sender has the answer, and closes the connection. In a container it would be ended with
// this process, which is the first one, and who has started it would not learn the answer.
func awaitHangup(ctx context.Context, conn *net.UnixConn) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return
	}
	for end := time.Now().Add(announcementTime); time.Now().Before(end) && ctx.Err() == nil; {
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

func readAnnouncement(conn *net.UnixConn, r *bufio.Reader) (a announcement, err error) {
	if err := conn.SetReadDeadline(time.Now().Add(announcementTime)); err != nil {
		return a, err
	}
	line, err := r.ReadSlice('\n')
	if err == nil {
		err = json.Unmarshal(line, &a)
	}
	if err != nil {
		return a, diskimage.Refuse(diskimage.InvalidSource, "read how large the upload is: %w", err)
	}
	if a.Size <= 0 && a.Checksum == "" {
		return a, diskimage.Refuse(diskimage.InvalidSource, "the upload says neither its size nor its checksum")
	}
	return a, conn.SetReadDeadline(time.Time{})
}

// send sends an image to a vmimport that waits, and prints what becomes of it.
func send(ctx context.Context, path string, a announcement, image io.Reader, out io.Writer) error {
	if _, err := diskimage.ParseChecksum(a.Checksum); err != nil {
		return err
	}
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		return fmt.Errorf("no import waits for an upload: %w", err)
	}
	conn := c.(*net.UnixConn)
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	_, err = conn.Write(append(text, '\n'))
	if err == nil {
		// An import that has failed reads no more, and has answered.
		_, err = io.Copy(conn, image)
		err = errors.Join(err, conn.CloseWrite())
	}
	var o outcome
	if decodeErr := json.NewDecoder(io.LimitReader(conn, 64<<10)).Decode(&o); decodeErr != nil {
		return fmt.Errorf("the import has ended without an answer: %w", errors.Join(err, decodeErr))
	}
	text, err = json.Marshal(o)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "%s\n", text); err != nil {
		return err
	}
	if o.Reason != imported {
		return reported{errors.New(o.Message)}
	}
	return nil
}
