package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"

	"vmop/diskimage"
	"vmop/diskimage/transfer"
)

// sendUpload sends an image to a waiting vmimport, and prints the outcome.
func sendUpload(ctx context.Context, path string, a transfer.Announcement, image io.Reader, out io.Writer) error {
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
	if a.ID != "" {
		return sendPiece(ctx, conn, a, image, out)
	}
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	_, err = conn.Write(append(text, '\n'))
	if err == nil {
		// A failed import stops reading, and has already answered.
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
	if o.Reason != transfer.Imported {
		return reported{errors.New(o.Message)}
	}
	return nil
}

// sendPiece sends a piece of an image, and prints the state of the upload.
func sendPiece(ctx context.Context, conn net.Conn, a transfer.Announcement, piece io.Reader, out io.Writer) error {
	is, err := transfer.Upload(ctx, conn, a, &whole{piece, a.Length})
	if err != nil {
		return err
	}
	text, err := json.Marshal(is)
	if err == nil {
		_, err = fmt.Fprintf(out, "%s\n", text)
	}
	if err != nil {
		return err
	}
	switch is.Reason {
	case transfer.Imported, transfer.Received, transfer.Continue, transfer.Unknown:
		return nil
	}
	return reported{errors.New(is.Message)}
}

// whole is a reader of exactly so many bytes. An earlier end is an error.
type whole struct {
	from io.Reader
	left int64
}

// Read implements io.Reader.
func (w *whole) Read(p []byte) (int, error) {
	n, err := w.from.Read(p)
	if w.left -= int64(n); errors.Is(err, io.EOF) && w.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
