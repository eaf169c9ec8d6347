package main

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/diskimage"
)

// full returns a disk of 12 MiB without holes.
func full() []byte {
	data := make([]byte, 12<<20)
	_, _ = rand.NewChaCha8([32]byte{3}).Read(data)
	return data
}

// exported starts an export of the full disk.
func exported(t *testing.T, more ...string) (*ran, string) {
	t.Helper()
	dir := t.TempDir()
	from, socket := filepath.Join(dir, "disk.raw"), filepath.Join(dir, "s")
	require.NoError(t, os.WriteFile(from, full(), 0o600))
	return start(t, nil, append([]string{"export", from, "--socket", socket}, more...)...), socket
}

// Several clients can download a disk at the same time, from the beginning or from an offset.
func TestExport(t *testing.T) {
	t.Parallel()
	e, socket := exported(t, "--length", "10485760")
	want := full()[:10<<20]
	for _, first := range []int64{0, 1 << 20} {
		f := start(t, nil, "fetch", "--socket", socket, "--from", "0")
		<-f.ended
		require.Equal(t, 0, f.ProcessState.ExitCode(), f.log)
		var got bytes.Buffer
		arrival := diskimage.Arrival{To: &diskimage.Plain{W: &got}, Progress: func(_, _ int64) {}}
		sent := f.out.String()
		if first > 0 {
			require.Error(t, arrival.Receive(bytes.NewReader([]byte(sent[:len(sent)/2]))))
			rest := start(t, nil, "fetch", "--socket", socket, "--from", "4194304")
			<-rest.ended
			require.EqualValues(t, 4<<20, arrival.Reached())
			sent = rest.out.String()
		}
		require.NoError(t, arrival.Receive(bytes.NewReader([]byte(sent))))
		require.True(t, bytes.Equal(want, got.Bytes()))
	}
	e.terminate(t)
	o, code := e.end(t)
	require.Equal(t, "Exported", o.Reason)
	require.Zero(t, code)
}

// The export closes connections of clients that don't read, or that send invalid requests.
func TestExportThatIsNotTaken(t *testing.T) {
	t.Parallel()
	e, socket := exported(t, "--stall", "100ms")
	e.says(t, "the disk can be fetched")
	conn, err := net.Dial("unix", socket)
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("{\"from\": 0}\n"))
	require.NoError(t, err)
	e.says(t, "the disk was not fetched to its end")
	sent, _ := io.ReadAll(conn)
	require.Less(t, len(sent), 8<<20)
	other, err := net.Dial("unix", socket)
	require.NoError(t, err)
	defer other.Close()
	_, err = other.Write([]byte("GET / HTTP/1.1\n"))
	require.NoError(t, err)
	e.says(t, "read from where the disk is wanted")
}

// An export ends when no client downloads the disk. It reports what it can't export.
func TestExportEnds(t *testing.T) {
	t.Parallel()
	e, _ := exported(t, "--idle", "10ms")
	o, code := e.end(t)
	require.Equal(t, "Exported", o.Reason)
	require.Zero(t, code)

	e = start(t, nil, "export", filepath.Join(t.TempDir(), "disk.img"))
	o, code = e.end(t)
	require.Equal(t, "SourceNotFound", o.Reason)
	require.Equal(t, 1, code)
}
