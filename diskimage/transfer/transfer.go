// Package transfer is what the pods that import and export disks say on a connection: to a socket in the pod, by a
// program that is executed there, or to a TCP port, by the manager.
//
//	answer, err := transfer.Upload(ctx, conn, transfer.Announcement{ID: id, Size: size, From: at, Length: n}, piece)
//	err := transfer.Fetch(conn, &arrival) // of package diskimage
//
// An upload comes at once, on one connection, or in pieces, each on a connection of its own: then the pod says how many
// bytes it has, and a piece that breaks, or a manager that is restarted, costs what was on its way.
//
// See docs/decisions/0158-files-through-pages.md.
package transfer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"vmop/diskimage"
)

// Port is the TCP port of a pod, at which only the manager is served: with TLS, and certificates on both sides (package
// runner/control/remote). The pod has its certificate and key in files of these names.
const (
	Port            = 7443
	CertificateFile = "tls.crt"
	KeyFile         = "tls.key"
)

// Bounds of what is said.
const (
	// MostLine is how many bytes an announcement has at most.
	MostLine = 4 << 10
	// LineTime is how long an announcement may take.
	LineTime = 10 * time.Second
	// WaitTime is how long the pod waits at most before it answers Received to a piece after which all bytes are there.
	WaitTime = 15 * time.Second
	// silence is how long the other end may take nothing, and say nothing that it has to.
	silence = 2 * time.Minute
)

// An Announcement is the first line of an upload, as JSON.
type Announcement struct {
	// Size of the image in bytes; 0 if it is not known, which an upload in pieces must not be.
	Size int64 `json:"size,omitempty"`
	// Checksum as diskimage.ParseChecksum reads it; "" is none.
	Checksum string `json:"checksum,omitempty"`
	// ID tells an upload in pieces from others; "" is one that comes at once, until the writing half of the connection
	// is closed.
	ID string `json:"id,omitempty"`
	// From is the first byte of the piece, Length how many it has. Without any, it is asked what has become of the
	// upload.
	From   int64 `json:"from,omitempty"`
	Length int64 `json:"length,omitempty"`
	// Cancel ends the upload.
	Cancel bool `json:"cancel,omitempty"`
}

// Reasons of an Answer, besides those of package diskimage.
const (
	Imported = "Imported" // the disk is whole
	Received = "Received" // all bytes are there, and are being imported
	Continue = "Continue" // the bytes from At on are wanted
	Unknown  = "Unknown"  // there is no upload of this ID: it begins with the first byte
	Busy     = "Busy"     // another upload is being received
)

// An Answer says what has become of an upload. To one in pieces there are two: the first one says from where bytes are
// wanted, if its reason is Continue, and the second one comes after the piece.
type Answer struct {
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	At      int64  `json:"at,omitempty"` // bytes that the import has taken
}

// A Request is the first line of who fetches a disk, as JSON. The answer is a transmission (package diskimage).
type Request struct {
	From int64 `json:"from"` // bytes that it has
}

// Upload sends a piece of an upload, which has a.Length bytes, and returns what has become of the upload. If the pod
// wants other bytes than those from a.From on, it sends none: the answer says which. It closes the connection.
func Upload(ctx context.Context, conn net.Conn, a Announcement, piece io.Reader) (Answer, error) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if err := writeLine(conn, a); err != nil {
		return Answer{}, fmt.Errorf("announce an upload: %w", err)
	}
	r := bufio.NewReaderSize(conn, MostLine)
	answer, err := readAnswer(conn, r)
	if err != nil || answer.Reason != Continue || answer.At != a.From || a.Length == 0 {
		return answer, err
	}
	type reply struct {
		Answer
		err error
	}
	answered := make(chan reply, 1)
	go func() { // an import that fails answers before it has the piece
		answer, err := readAnswer(conn, r)
		answered <- reply{answer, err}
		_ = conn.SetWriteDeadline(time.Unix(1, 0))
	}()
	_, sendErr := io.Copy(patient{conn}, io.LimitReader(piece, a.Length))
	if sendErr != nil { // of the piece, or of the connection, by which there may be an answer
		time.AfterFunc(time.Second, func() { _ = conn.Close() })
	}
	last := <-answered
	if last.err != nil {
		return Answer{}, fmt.Errorf("send a piece of an upload: %w", errors.Join(sendErr, last.err))
	}
	return last.Answer, nil
}

// Fetch fetches what has not arrived yet of a disk.
func Fetch(conn net.Conn, arrival *diskimage.Arrival) error {
	if err := writeLine(conn, Request{From: arrival.Reached()}); err != nil {
		return fmt.Errorf("ask for a disk: %w", err)
	}
	return arrival.Receive(patient{conn})
}

// patient is a connection whose other end has to do something within a time.
type patient struct{ net.Conn }

// Write implements io.Writer.
func (p patient) Write(b []byte) (int, error) {
	if err := p.SetWriteDeadline(time.Now().Add(silence)); err != nil {
		return 0, err
	}
	return p.Conn.Write(b)
}

// Read implements io.Reader.
func (p patient) Read(b []byte) (int, error) {
	if err := p.SetReadDeadline(time.Now().Add(silence)); err != nil {
		return 0, err
	}
	return p.Conn.Read(b)
}

func writeLine(conn net.Conn, value any) error {
	text, err := json.Marshal(value)
	if err == nil {
		_, err = patient{conn}.Write(append(text, '\n'))
	}
	return err
}

func readAnswer(conn net.Conn, r *bufio.Reader) (a Answer, err error) {
	if err := conn.SetReadDeadline(time.Now().Add(silence)); err != nil {
		return a, err
	}
	line, err := r.ReadSlice('\n')
	if err == nil {
		err = json.Unmarshal(line, &a)
	}
	if err != nil {
		return a, fmt.Errorf("read the answer to an upload: %w", err)
	}
	return a, nil
}
