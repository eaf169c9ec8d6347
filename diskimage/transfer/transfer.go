// Package transfer defines the protocol of the pods that import and export disks. Its connections lead to a socket
// in the pod, from a program that is executed there, or to a TCP port, from the manager.
//
//	answer, err := transfer.Upload(ctx, conn, transfer.Announcement{ID: id, Size: size, From: at, Length: n}, piece)
//	err := transfer.Fetch(conn, &arrival) // of package diskimage
//
// An upload arrives as a whole on one connection, or in pieces, each on its own connection. For an upload in pieces,
// the pod reports how many bytes it has, so a broken piece or a restarted manager loses only the bytes in transit.
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

// Port is a pod's TCP port for the manager only, with mutual TLS (package runner/control/remote). The pod's
// certificate and key are in files of these names.
const (
	Port            = 7443
	CertificateFile = "tls.crt"
	KeyFile         = "tls.key"
)

// Limits of the protocol.
const (
	// MostLine is the maximum length of an announcement in bytes.
	MostLine = 4 << 10
	// LineTime is the time limit for an announcement.
	LineTime = 10 * time.Second
	// WaitTime is how long the pod waits at most for the end of the import before it answers Received to the last
	// piece.
	WaitTime = 15 * time.Second
	// silence is how long the other end may accept no bytes, or delay the bytes that it owes.
	silence = 2 * time.Minute
)

// An Announcement is the first line of an upload, as JSON.
type Announcement struct {
	// Size of the image in bytes; 0 if unknown. An upload in pieces must have a known size.
	Size int64 `json:"size,omitempty"`
	// Checksum in the syntax of diskimage.ParseChecksum; "" means none.
	Checksum string `json:"checksum,omitempty"`
	// ID identifies an upload in pieces; "" means an upload as a whole, which ends when the writing half of the
	// connection is closed.
	ID string `json:"id,omitempty"`
	// From is the offset of the piece, Length its number of bytes. Length 0 requests the state of the upload.
	From   int64 `json:"from,omitempty"`
	Length int64 `json:"length,omitempty"`
	// Cancel ends the upload.
	Cancel bool `json:"cancel,omitempty"`
}

// Reasons of an Answer, in addition to those in package diskimage.
const (
	Imported = "Imported" // the disk is complete
	Received = "Received" // all bytes have arrived and are being imported
	Continue = "Continue" // the pod expects the bytes from At on
	Unknown  = "Unknown"  // no upload has this ID: start with the first byte
	Busy     = "Busy"     // another upload is being received
)

// An Answer describes the state of an upload. An upload in pieces has two answers per connection. The first, if its
// reason is Continue, requests bytes from an offset. The second follows the piece.
type Answer struct {
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	At      int64  `json:"at,omitempty"` // bytes that the import has accepted
}

// A Request is the first line of a client that fetches a disk, as JSON. The answer is a transmission (package
// diskimage).
type Request struct {
	From int64 `json:"from"` // bytes that the client has
}

// Upload sends a piece of a.Length bytes and returns the state of the upload. If the pod expects other bytes than
// those from a.From on, Upload sends no bytes, and the answer contains the expected offset. Upload closes the
// connection.
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
	go func() { // a failed import answers before it has the whole piece
		answer, err := readAnswer(conn, r)
		answered <- reply{answer, err}
		_ = conn.SetWriteDeadline(time.Unix(1, 0))
	}()
	_, sendErr := io.Copy(patient{conn}, io.LimitReader(piece, a.Length))
	if sendErr != nil { // the piece or the connection failed; the connection may still deliver an answer
		time.AfterFunc(time.Second, func() { _ = conn.Close() })
	}
	last := <-answered
	if last.err != nil {
		return Answer{}, fmt.Errorf("send a piece of an upload: %w", errors.Join(sendErr, last.err))
	}
	return last.Answer, nil
}

// Fetch fetches the part of a disk that hasn't arrived yet.
func Fetch(conn net.Conn, arrival *diskimage.Arrival) error {
	if err := writeLine(conn, Request{From: arrival.Reached()}); err != nil {
		return fmt.Errorf("ask for a disk: %w", err)
	}
	return arrival.Receive(patient{conn})
}

// patient is a connection with a time limit for each read and write.
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
