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

// send sends an image to a vmimport that waits, and prints what becomes of it.
func send(ctx context.Context, path string, a transfer.Announcement, image io.Reader, out io.Writer) error {
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
	if o.Reason != transfer.Imported {
		return reported{errors.New(o.Message)}
	}
	return nil
}
