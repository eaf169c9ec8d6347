package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"vmop/diskimage"
	"vmop/diskimage/transfer"
	"vmop/internal/cli"
	"vmop/internal/printable"
	"vmop/internal/readfile"
	diskof "vmop/manager/disk"
)

// Limits of an upload.
const (
	longestID     = 300             // characters
	uploadRetry   = 2 * time.Second // pause before restoring a broken connection
	uploadRetries = 5               // consecutive attempts without progress
)

// upload is an image in a local file.
type upload struct {
	transfer.Announcement // of the next piece

	file *os.File

	sent int64 // bytes read so far
}

// openUpload opens a file. Its size is announced, so that a truncated upload is not mistaken for a complete
// image.
func openUpload(name, checksum string) (*upload, error) {
	if _, err := diskimage.ParseChecksum(checksum); err != nil {
		return nil, cli.UsageError{Err: fmt.Errorf("--%w", err)}
	}
	file, err := readfile.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read the image: %w", err)
	}
	info, err := file.Stat()
	switch {
	case err != nil:
	case info.Size() == 0:
		err = fmt.Errorf("%s is empty", name)
	default:
		id := fmt.Sprintf("%d-%d-%s", info.Size(), info.ModTime().UnixNano(), filepath.Base(name))
		return &upload{file: file, Announcement: transfer.Announcement{
			Size: info.Size(), Checksum: checksum, ID: printable.Clip(id, longestID),
		}}, nil
	}
	return nil, errors.Join(err, file.Close())
}

// sending is an upload to the import pod of an object.
type sending struct {
	*cluster
	*upload

	what, pod string
	shown     *cli.Progress
	since     string // where the upload was continued
	arrived   int64  // bytes
	failures  int    // failures without progress
}

// sendImage sends the image to a pod once the pod is ready, and returns when the image has been imported. The received
// data stay in the pod if a connection breaks or this program ends, so the upload can continue.
func (c *cluster) sendImage(
	ctx context.Context, cmd *cobra.Command, what, pod string, u *upload, ready func() error,
) error {
	s := &sending{cluster: c, upload: u, what: what, pod: pod, shown: cli.NewProgress(cmd)}
	defer s.shown.End()
	for {
		if err := ready(); errors.Is(err, errWhole) && u.sent == u.Size {
			return nil // the pod ended before it could answer
		} else if err != nil {
			return err
		}
		done, err := s.sendRest(ctx)
		switch {
		case done:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case apierrors.IsForbidden(causeOfStream(err)), apierrors.IsUnauthorized(causeOfStream(err)):
			return err
		case s.failures == uploadRetries:
			return hinted{
				fmt.Errorf("%s: no more data arrives, after %d of %d bytes: %v",
					what, s.arrived, u.Size, causeOfStream(err)), // not %w: the user has not named the pod
				"the same command continues, within an hour",
			}
		}
		s.failures++
		s.shown.Show("broken", fmt.Sprintf("%s: the connection broke (%v), and is opened again", what,
			causeOfStream(err)))
		select {
		case <-ctx.Done():
		case <-time.After(uploadRetry):
		}
	}
}

// sendRest asks for the number of received bytes and sends the remaining bytes, until the image has been
// imported or refused; done is then true. Otherwise the error means that a connection broke.
func (s *sending) sendRest(ctx context.Context) (done bool, err error) {
	for s.From, s.Length = 0, 0; ; {
		is, err := s.sendPiece(ctx)
		if err != nil {
			return false, err
		}
		switch is.Reason {
		case transfer.Imported:
			return true, nil
		case transfer.Unknown:
			s.arrived = 0
			return false, errors.New("the pod has been replaced")
		case transfer.Received, transfer.Continue:
		default:
			return true, fmt.Errorf("%s: %s: %s", s.what, cli.Printable(is.Reason), cli.Printable(is.Message))
		}
		if is.At > s.arrived {
			s.arrived, s.failures = is.At, 0
		}
		if s.Length == 0 && is.At > 0 && is.At < s.Size {
			s.since = fmt.Sprintf(", continued after %d%%", is.At*100/s.Size)
		}
		s.From, s.Length = is.At, s.Size-is.At
	}
}

// sendPiece sends a piece of an image, and returns the answer of the pod. An empty piece only asks for the state.
func (s *sending) sendPiece(ctx context.Context) (is transfer.Answer, err error) {
	u := s.upload
	command := []string{
		"vmimport", "receive", "--socket", diskof.UploadSocket, "--size", strconv.FormatInt(u.Size, 10), "--id", u.ID,
		"--from", strconv.FormatInt(u.From, 10), "--length", strconv.FormatInt(u.Length, 10),
	}
	if u.Checksum != "" {
		command = append(command, "--checksum", u.Checksum)
	}
	var in io.Reader
	if u.Length > 0 {
		at := u.From
		piece := &reading{Reader: io.NewSectionReader(u.file, u.From, u.Length), read: func(n int) {
			at += int64(n)
			u.sent = max(u.sent, at)
			s.shown.Show("sending"+s.since, fmt.Sprintf("%s: sending, %d%%%s", s.what, at*100/u.Size, s.since))
		}}
		defer piece.endReading()
		in = piece
	}
	var out bytes.Buffer
	err = s.execIn(ctx, s.pod, "import", command, in, &out)
	if ctx.Err() != nil {
		return is, context.Cause(ctx)
	}
	if json.Unmarshal(out.Bytes(), &is) == nil && is.Reason != "" {
		return is, nil
	}
	if err == nil {
		err = errors.New("no answer")
	}
	return is, err
}

// reading reports the number of bytes read until end is called. Another goroutine may still read after that.
type reading struct {
	io.Reader

	mu   sync.Mutex
	read func(n int)
	over bool
}

// Read implements io.Reader.
func (r *reading) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.read(n)
	}
	return n, err
}

func (r *reading) endReading() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
}
