package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/manager/web/fleet"
)

// Upload simulates a pod that receives a file.
func (d *disks) Upload(_ context.Context, _ fleet.VolumeKind, name string, p fleet.Piece) (fleet.Upload, error) {
	d.of.mutex.Lock()
	defer d.of.mutex.Unlock()
	if err := d.fails; err != nil {
		if p.Length > 0 {
			_, _ = io.CopyN(io.Discard, p.Body, 100)
		}
		if !errors.As(err, new(fleet.NotYet)) {
			d.fails = nil
		}
		return fleet.Upload{}, err
	}
	if p.Cancel {
		delete(d.uploads, name)
		d.of.done = append(d.of.done, "canceled "+p.ID)
		return fleet.Upload{State: fleet.UploadUnknown}, nil
	}
	d.id, d.sum = p.ID, p.Checksum
	has := d.uploads[name]
	if p.From == int64(len(has)) && p.Length > 0 {
		more, err := io.ReadAll(p.Body)
		d.uploads[name] = append(has, more...)
		if err != nil {
			return fleet.Upload{}, err
		}
	}
	is := fleet.Upload{State: fleet.UploadContinues, At: int64(len(d.uploads[name]))}
	if is.At == p.Size {
		is.State = fleet.UploadReceived
		if p.Length == 0 {
			is.State = fleet.UploadImported
		}
	}
	return is, nil
}

// firstRequest is the request of all exports.
const firstRequest = "2026-11-22T09:40:00.123456789Z"

func (d *disks) Export(_ context.Context, user string, kind fleet.VolumeKind, name string) (string, error) {
	return firstRequest, d.of.record("%s exports %s %s", user, kind, name)
}

func (d *disks) Exported(_ fleet.VolumeKind, _, request string) error {
	d.of.mutex.Lock()
	defer d.of.mutex.Unlock()
	switch {
	case request != firstRequest:
		return fleet.Refusal("another export has been asked for")
	case d.offer == nil:
		return fleet.NotYet("the pod is being started")
	}
	return nil
}

func (d *disks) Download(_ context.Context, _ fleet.VolumeKind, _, _ string, to fleet.DiskWriter) error {
	size := int64(len(d.offer))
	err := to.Begin(size)
	for at := int64(0); at < size && err == nil; at += 4096 {
		if block := d.offer[at:min(at+4096, size)]; !bytes.Equal(block, make([]byte, len(block))) {
			err = to.Put(block, at)
		}
	}
	if err = errors.Join(err, d.fails); err != nil {
		return err
	}
	return errors.Join(to.End(size), d.of.record("sent"))
}

// upload sends a piece, and returns the status code and content of the answer.
func (p *play) upload(disk, query string, piece []byte, header ...string) (int, fleet.Upload, problem) {
	p.t.Helper()
	answer, text := p.call("PUT", "/api/v1/disks/VirtualDisk/"+disk+"/data?"+query, string(piece), header...)
	var is fleet.Upload
	var no problem
	require.NoError(p.t, json.Unmarshal([]byte(text), &is), text)
	require.NoError(p.t, json.Unmarshal([]byte(text), &no), text)
	return answer.StatusCode, is, no
}

// A file that is sent in pieces arrives unchanged. Invalid pieces are refused, and so are visitors who may not create
// VMs.
func TestUploadOfAFile(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.store(stored()...)
	code, is, _ := p.upload("a", "upload=x&size=10", nil)
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, fleet.Upload{State: fleet.UploadContinues}, is)
	_, is, _ = p.upload("a", "upload=x&size=10", []byte("01234"))
	require.Equal(t, fleet.Upload{State: fleet.UploadContinues, At: 5}, is)
	_, is, _ = p.upload("a", "upload=x&size=10&from=3", []byte("3456"))
	require.EqualValues(t, 5, is.At, "not twice")
	_, is, _ = p.upload("a", "upload=x&size=10&from=5", []byte("56789"))
	require.Equal(t, fleet.Upload{State: fleet.UploadReceived, At: 10}, is)
	_, is, _ = p.upload("a", "upload=x&size=10&from=10", nil)
	require.Equal(t, fleet.UploadImported, is.State)
	require.Equal(t, "0123456789", string(p.disks.uploads["a"]))

	for query, want := range map[string]int{
		"upload=x&size=0": 400, "upload=x&size=a": 400, "size=10": 400, "upload=x&size=10&from=11": 400,
		"upload=x&size=10&from=-1": 400, "upload=x&size=10&from=8": 413,
	} {
		code, _, no := p.upload("a", query, []byte("01234"))
		require.Equal(t, want, code, query)
		require.NotEmpty(t, no.Detail)
	}
	large := make([]byte, mostPiece+1)
	code, _, no := p.upload("a", fmt.Sprintf("upload=x&size=%d", len(large)), large)
	require.Equal(t, "tooLarge", no.Reason)
	require.Equal(t, http.StatusRequestEntityTooLarge, code)

	p.disks.fails = fleet.NotYet("the pod is being started")
	answer, text := p.call("PUT", "/api/v1/disks/VirtualDisk/a/data?upload=x&size=10", string(large[:10]))
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode, text)
	require.Equal(t, "2", answer.Header.Get("Retry-After"))
	p.disks.fails = fleet.Refusal("UnsupportedFormat: <b>")
	code, _, no = p.upload("a", "upload=x&size=10", large[:10])
	require.Equal(t, http.StatusConflict, code)
	require.Equal(t, "UnsupportedFormat: <b>", no.Detail)
	answer, _ = p.call("PUT", "/api/v1/disks/PersistentVolumeClaim/a/data?upload=x&size=10", "")
	require.Equal(t, http.StatusNotFound, answer.StatusCode)

	p.allow("guest", "edit", "delete", "start")
	for _, c := range [][2]string{
		{"PUT", "/api/v1/disks/VirtualDisk/a/data?upload=x&size=10"},
		{"GET", "/api/v1/disks/VirtualDisk/a/data?request=" + firstRequest},
		{"DELETE", "/api/v1/disks/VirtualDisk/a/data?upload=x&size=10"},
		{"POST", "/api/v1/disks/VirtualDisk/a/export"},
		{"POST", "/disks/VirtualDisk/a/export"},
		{"GET", "/disks/VirtualDisk/a/export?request=" + firstRequest},
	} {
		answer, _ := p.call(c[0], c[1], "", "Test-User", "guest")
		require.Equal(t, http.StatusForbidden, answer.StatusCode, c)
	}
	answer, _ = p.call("PUT", "/api/v1/disks/VirtualDisk/a/data?upload=x&size=10", "x", "Sec-Fetch-Site", "cross-site")
	require.Equal(t, http.StatusForbidden, answer.StatusCode, "another site must not send one")
	require.Empty(t, p.done)
}

// Pieces beyond the limit are refused for a moment. A slot is free again after its piece.
func TestPlacesForPieces(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.store(stored()...)
	for range mostPieces {
		p.server.transfers.pieces <- struct{}{}
	}
	code, _, no := p.upload("a", "upload=x&size=10", nil)
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, "notYet", no.Reason)
	<-p.server.transfers.pieces
	for range 3 {
		code, _, _ = p.upload("a", "upload=x&size=10", nil)
		require.Equal(t, http.StatusOK, code)
	}
}

// holey returns a disk with large holes, and a hole at its end.
func holey() []byte {
	data := make([]byte, 3*holeSize+12345)
	random := rand.NewChaCha8([32]byte{5})
	_, _ = random.Read(data[:1<<20])
	_, _ = random.Read(data[holeSize+8<<20 : holeSize+9<<20])
	return data
}

// A disk is downloaded raw or compressed, and holes compress to almost zero bytes. A failed download doesn't look like
// a complete file.
func TestDownloadOfADisk(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.store(fleet.Volume{Kind: fleet.VirtualDisk, Name: "a", State: "Ready"})
	answer, text := p.call("POST", "/api/v1/disks/VirtualDisk/a/export", "")
	require.Equal(t, http.StatusAccepted, answer.StatusCode)
	require.JSONEq(t, `{"request": "`+firstRequest+`"}`, text)
	const address = "/api/v1/disks/VirtualDisk/a/data?request=" + firstRequest
	p.disks.offer = holey()
	answer, text = p.call("GET", address+"&format=raw", "")
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.EqualValues(t, len(p.disks.offer), answer.ContentLength)
	require.Equal(t, `attachment; filename="a.img"`, answer.Header.Get("Content-Disposition"))
	require.True(t, text == string(p.disks.offer))
	answer, text = p.call("GET", address, "")
	require.Equal(t, `attachment; filename="a.img.gz"`, answer.Header.Get("Content-Disposition"))
	require.Empty(t, answer.Header.Get("Content-Encoding"))
	require.Less(t, len(text), 2<<20+200<<10)
	z, err := gzip.NewReader(bytes.NewReader([]byte(text)))
	require.NoError(t, err)
	got, err := io.ReadAll(z)
	require.NoError(t, err)
	require.True(t, bytes.Equal(p.disks.offer, got))

	for query, want := range map[string]int{"?request=r2": 409, "?format=vhd&request=" + firstRequest: 400} {
		answer, _ = p.call("GET", "/api/v1/disks/VirtualDisk/a/data"+query, "")
		require.Equal(t, want, answer.StatusCode, query)
	}
	p.disks.fails = errors.New("the node has failed")
	for _, format := range []string{"raw", "gzip"} {
		request, err := http.NewRequestWithContext(t.Context(), "GET", p.http.URL+address+"&format="+format, nil)
		require.NoError(t, err)
		answer, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, answer.Body)
		require.Error(t, err, format)
		require.NoError(t, answer.Body.Close())
	}
}

// The page of a download waits until the data is available, and shows the reason if it can't be.
func TestPageOfADownload(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.store(fleet.Volume{Kind: fleet.VirtualDisk, Name: "a", State: "Ready"})
	_, page := p.call("GET", "/disks", "")
	require.Contains(t, page, `action="/disks/VirtualDisk/a/export"`)
	answer, _ := p.call("POST", "/disks/VirtualDisk/a/export", "", "Sec-Fetch-Mode", "navigate")
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	next := answer.Header.Get("Location")
	require.Equal(t, []string{"admin exports VirtualDisk a"}, p.done)
	answer, page = p.call("GET", next, "")
	require.Equal(t, "2", answer.Header.Get("Refresh"))
	require.Contains(t, page, "the pod is being started")
	checkPage(t, next, "en", page)
	p.disks.offer = []byte("data")
	answer, _ = p.call("GET", next, "")
	require.Equal(t, "0; url=/api/v1/disks/VirtualDisk/a/data?format=&request="+url.QueryEscape(firstRequest),
		answer.Header.Get("Refresh"))
	answer, _ = p.call("GET", "/disks/VirtualDisk/a/export?request=old", "", "Sec-Fetch-Mode", "navigate")
	require.Equal(t, http.StatusConflict, answer.StatusCode)
}
