package web

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/klauspost/compress/gzip"

	"vmop/manager/web/fleet"
)

// A download sends a disk to a browser as a file: raw, or compressed with gzip, which common tools and vmimport can
// read.
type download struct {
	w    http.ResponseWriter
	out  *http.ResponseController
	name string // of the file
	zip  *gzip.Writer
	hole func() ([]byte, error)
	at   int64
	sent bool
}

// Formats of downloads.
const (
	formatGzip = "gzip"
	formatRaw  = "raw"
)

func (t *transfers) openDownload(w http.ResponseWriter, of fleet.Volume, format string) (*download, error) {
	d := &download{w: w, out: http.NewResponseController(w), name: of.Name + ".img", hole: t.hole}
	switch format {
	case formatGzip, "":
		d.name += ".gz"
		var err error
		d.zip, err = gzip.NewWriterLevel(steadyWriter{d}, gzip.BestSpeed)
		return d, err
	case formatRaw:
		return d, nil
	}
	return nil, badRequest("format=%q: must be %s or %s", format, formatGzip, formatRaw)
}

// Begun reports whether the browser has received the beginning of the file.
func (d *download) Begun() bool { return d.sent }

// Begin implements fleet.DiskWriter.
func (d *download) Begin(size int64) error {
	h := d.w.Header()
	h.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", d.name)) // Kubernetes names have no quotes
	h.Set("Content-Type", "application/gzip")
	if d.zip == nil {
		h.Set("Content-Type", "application/octet-stream")
		h.Set("Content-Length", strconv.FormatInt(size, 10))
	}
	d.sent = true
	d.w.WriteHeader(http.StatusOK)
	return nil
}

// Put implements fleet.DiskWriter.
func (d *download) Put(data []byte, at int64) error {
	if err := d.writeZeros(at); err != nil {
		return err
	}
	d.at += int64(len(data))
	_, err := d.downloadWriter().Write(data)
	return err
}

// End implements fleet.DiskWriter.
func (d *download) End(size int64) error {
	err := d.writeZeros(size)
	if err == nil && d.zip != nil {
		err = d.zip.Close()
	}
	return err
}

func (d *download) downloadWriter() io.Writer {
	if d.zip != nil {
		return d.zip
	}
	return steadyWriter{d}
}

// holeSize is the size of the hole that is compressed in advance.
const holeSize = 16 << 20

var block [256 << 10]byte

// gzipHole returns holeSize zeros as a gzip member. A gzip file may have many members.
func gzipHole() ([]byte, error) {
	var text bytes.Buffer
	z, err := gzip.NewWriterLevel(&text, gzip.BestCompression)
	for n := 0; n < holeSize && err == nil; n += len(block) {
		_, err = z.Write(block[:])
	}
	if err == nil {
		err = z.Close()
	}
	return text.Bytes(), err
}

// writeZeros writes zeros up to an offset.
func (d *download) writeZeros(until int64) error {
	if d.zip != nil && until-d.at >= holeSize {
		compressed, err := d.hole()
		if err == nil {
			err = d.zip.Close() // ends the current member
		}
		for ; err == nil && until-d.at >= holeSize; d.at += holeSize {
			_, err = steadyWriter{d}.Write(compressed)
		}
		if err != nil {
			return err
		}
		d.zip.Reset(steadyWriter{d})
	}
	for d.at < until {
		n, err := d.downloadWriter().Write(block[:min(int64(len(block)), until-d.at)])
		if d.at += int64(n); err != nil {
			return err
		}
	}
	return nil
}

// steadyWriter writes to a browser, and fails if the browser stalls.
type steadyWriter struct{ d *download }

// Write implements io.Writer.
func (s steadyWriter) Write(p []byte) (int, error) {
	_ = s.d.out.SetWriteDeadline(time.Now().Add(browserStall))
	return s.d.w.Write(p)
}
