package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"vmop/diskimage"
	"vmop/diskimage/transfer"
	"vmop/manager/vm/objects"
	"vmop/manager/web/stream"
	"vmop/runner/config"
	"vmop/runner/control/remote"
	"vmop/test/wait"
)

// manager is a manager with a pod's key. The pod trusts its authority.
type manager struct {
	*stream.Keys
	t      *testing.T
	folder string // of the pod
	target stream.Target
}

func newManager(t *testing.T) *manager {
	t.Helper()
	core := fake.NewClientset().CoreV1()
	m := &manager{
		Keys: stream.NewKeys(core.Secrets("vms"), core.ConfigMaps("vms"), slog.New(slog.DiscardHandler)), t: t,
		folder: t.TempDir(),
	}
	require.NoError(t, m.Refresh(t.Context()))
	public, err := core.ConfigMaps("vms").Get(t.Context(), objects.ManagerCA, metav1.GetOptions{})
	require.NoError(t, err)
	pair, err := remote.NewPair(time.Now())
	require.NoError(t, err)
	m.target.Key = pair.Hash
	for name, text := range map[string]string{
		config.AuthoritiesFile:   public.Data[config.AuthoritiesFile],
		transfer.CertificateFile: string(pair.Certificate), transfer.KeyFile: string(pair.Key),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(m.folder, name), []byte(text), 0o600))
	}
	return m
}

// start starts a pod's program that listens for the manager.
func (m *manager) start(args ...string) *ran {
	m.t.Helper()
	dir, err := os.MkdirTemp("", "u") // short, because socket paths are limited
	require.NoError(m.t, err)
	m.t.Cleanup(func() { require.NoError(m.t, os.RemoveAll(dir)) })
	r := start(m.t, nil, append(args, "--socket", filepath.Join(dir, "s"), "--tls", m.folder, "--port", "0",
		"--log-format", "json")...)
	m.target.Address = "127.0.0.1:" + r.await(m.t, "listening for the manager", "port")
	return r
}

func (m *manager) dial() net.Conn {
	m.t.Helper()
	conn, err := m.Dial(m.t.Context(), m.target)
	require.NoError(m.t, err)
	return conn
}

// send sends a piece of an image.
func (m *manager) send(a transfer.Announcement, piece []byte) transfer.Answer {
	m.t.Helper()
	a.Length = int64(len(piece))
	answer, err := transfer.Upload(m.t.Context(), m.dial(), a, bytes.NewReader(piece))
	require.NoError(m.t, err)
	return answer
}

// An upload in pieces is resumed after the last byte that has arrived, by any sender.
func TestUploadInPieces(t *testing.T) {
	t.Parallel()
	m, data := newManager(t), disk()
	target := filepath.Join(t.TempDir(), "disk.img")
	r := m.start("import", "--upload", "--target", target)
	a := transfer.Announcement{Size: int64(len(data)), ID: "a"}
	is := m.send(a, nil)
	require.Equal(t, transfer.Answer{Reason: transfer.Continue}, is)
	is = m.send(a, data[:1<<20])
	require.Equal(t, transfer.Answer{Reason: transfer.Continue, At: 1 << 20}, is)

	// The next piece displaces a stalled piece, and the bytes that have arrived count. It may displace a piece before
	// it has arrived.
	a.From, a.Length = 1<<20, 1<<20
	for pause, end := time.Millisecond, 1<<20+4096; is.At < int64(end); pause *= 2 {
		require.Less(t, pause, time.Minute)
		stalled, feed := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			_, err := transfer.Upload(t.Context(), m.dial(), a, stalled)
			stalled.CloseWithError(err)
			ended <- err
		}()
		_, _ = feed.Write(data[is.At:end])
		time.Sleep(pause)
		is = m.send(a, nil)
		require.NoError(t, feed.CloseWithError(errors.New("the browser has gone")))
		require.Error(t, <-ended)
		a.From = is.At
	}
	a.From = 1 << 20
	is = m.send(a, data[1<<20:2<<20])
	require.Equal(t, transfer.Answer{Reason: transfer.Continue, At: 1<<20 + 4096}, is, "it wants no byte twice")

	other := a
	other.ID, other.From = "b", 0
	is = m.send(other, data)
	require.Equal(t, transfer.Busy, is.Reason)
	other.From = 5
	is = m.send(other, data[5:])
	require.Equal(t, transfer.Unknown, is.Reason)

	a.From += 4096
	is = m.send(a, data[a.From:])
	require.Equal(t, transfer.Imported, is.Reason, is.Message)
	o, code := r.end(t)
	require.Zero(t, code)
	require.Equal(t, "Imported", o.Reason)
	got, err := os.ReadFile(target)
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, got))
}

// The socket accepts an image in pieces. A piece that ends early is incomplete, but the bytes that have arrived count.
func TestPiecesAtTheSocket(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "u") // short, because socket paths are limited
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	socket, target, data := filepath.Join(dir, "s"), filepath.Join(dir, "disk.img"), disk()
	pod := start(t, nil, "import", "--upload", "--target", target, "--socket", socket, "--log-format", "json")
	pod.await(t, "phase", "phase")
	size := strconv.Itoa(len(data))
	send := func(piece []byte, more ...string) (transfer.Answer, int) {
		t.Helper()
		r := start(t, bytes.NewReader(piece), append([]string{
			"receive", "--socket", socket, "--size", size, "--id", "a",
		}, more...)...)
		_, code := r.end(t)
		var is transfer.Answer
		if text := r.out.String(); text != "" {
			require.NoError(t, json.Unmarshal([]byte(text), &is))
		}
		return is, code
	}
	is, code := send(nil)
	require.Equal(t, transfer.Answer{Reason: transfer.Continue}, is)
	require.Zero(t, code)
	_, code = send(data[:1<<20], "--length", size)
	require.Equal(t, 1, code)
	is, _ = send(nil)
	require.Equal(t, transfer.Answer{Reason: transfer.Continue, At: 1 << 20}, is)
	is, code = send(data[1<<20:], "--from", "1048576", "--length", strconv.Itoa(len(data)-1<<20))
	require.Equal(t, transfer.Imported, is.Reason)
	require.Zero(t, code)
	_, code = pod.end(t)
	require.Zero(t, code)
	got, err := os.ReadFile(target)
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, got))
}

// After an invalid image, a canceled upload or a time-out, the image can be sent again. Each answer contains the
// reason.
func TestPiecesThatAreNoImage(t *testing.T) {
	t.Parallel()
	m, data := newManager(t), disk()
	r := m.start("import", "--upload", "--target", filepath.Join(t.TempDir(), "disk.img"), "--size", "1048576")
	page := append([]byte("<html>"), make([]byte, 3<<20)...)
	a := transfer.Announcement{Size: int64(len(page)), ID: "page"}
	for _, n := range []int64{1 << 20, 2 << 20, a.Size} {
		is := m.send(a, page[a.From:n])
		if a.From = n; is.Reason != transfer.Continue {
			require.Equal(t, "UnsupportedFormat", is.Reason)
			break
		}
		require.Less(t, n, a.Size)
	}
	a.From = 1 << 20
	is := m.send(a, nil)
	require.Equal(t, "UnsupportedFormat", is.Reason, "who has not heard it asks again")

	a = transfer.Announcement{Size: int64(len(data)), ID: "canceled"}
	wait.Until(t, func() bool { return m.send(a, data[:4096]).Reason == transfer.Continue })
	a.Cancel = true
	is = m.send(a, nil)
	require.Equal(t, "TransferBroken", is.Reason)
	require.Contains(t, is.Message, "canceled")

	awaited := func(a transfer.Announcement) {
		wait.Until(t, func() bool { return m.send(a, nil).Reason == transfer.Continue })
	}
	wrong := transfer.Announcement{Size: 1 << 20, ID: "sum", Checksum: "sha256:" + strings.Repeat("0", 64)}
	awaited(wrong)
	is = m.send(wrong, data[1<<20:2<<20])
	require.Equal(t, "ChecksumMismatch", is.Reason)

	a = transfer.Announcement{Size: int64(len(data)), ID: "large"}
	awaited(a)
	is = m.send(a, data)
	require.Equal(t, "ImageTooLarge", is.Reason)
	o, code := r.end(t)
	require.Equal(t, 1, code)
	require.Equal(t, "ImageTooLarge", o.Reason)
}

// The port serves only the manager, and the manager does not accept another pod.
func TestStrangersAtThePort(t *testing.T) {
	t.Parallel()
	m, stranger := newManager(t), newManager(t)
	m.start("import", "--upload", "--target", filepath.Join(t.TempDir(), "disk.img"))
	foreign, err := stranger.Dial(t.Context(), m.target)
	if err == nil { // with TLS 1.3 the refusal arrives when the client reads
		_, err = transfer.Upload(t.Context(), foreign, transfer.Announcement{Size: 1, ID: "x"}, nil)
	}
	require.Error(t, err)
	bare, err := (&tls.Dialer{Config: &tls.Config{
		InsecureSkipVerify: true, NextProtos: []string{"http/1.1"},
	}}).DialContext(t.Context(), "tcp", m.target.Address)
	if err == nil {
		_, err = transfer.Upload(t.Context(), bare, transfer.Announcement{Size: 1, ID: "x"}, nil)
	}
	require.Error(t, err)
	other := m.target
	other.Key = stranger.target.Key
	_, err = m.Dial(t.Context(), other)
	require.ErrorIs(t, err, stream.ErrOther)
	require.Equal(t, transfer.Continue, m.send(transfer.Announcement{Size: 1, ID: "x"}, nil).Reason)
}

// A disk is downloaded at the port. After a broken connection, the download continues after the last piece.
func TestFetchAtThePort(t *testing.T) {
	t.Parallel()
	m, dir := newManager(t), t.TempDir()
	from := filepath.Join(dir, "disk.raw")
	require.NoError(t, os.WriteFile(from, full(), 0o600))
	r := m.start("export", from)
	var got bytes.Buffer
	arrival := diskimage.Arrival{To: &diskimage.Plain{W: &got}}
	ctx, cut := context.WithCancel(t.Context())
	broken := m.dial()
	context.AfterFunc(ctx, func() { _ = broken.Close() })
	arrival.Progress = func(at, _ int64) {
		if at >= 4<<20 {
			cut()
		}
	}
	err := transfer.Fetch(broken, &arrival)
	require.Error(t, err)
	for err != nil {
		require.NotErrorAs(t, err, new(*diskimage.Error))
		require.GreaterOrEqual(t, arrival.Reached(), int64(4<<20))
		err = transfer.Fetch(m.dial(), &arrival)
	}
	require.True(t, bytes.Equal(full(), got.Bytes()))
	r.terminate(t)
	o, _ := r.end(t)
	require.Equal(t, "Exported", o.Reason)
}
