package inventory

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/prepare/images"
)

// piece returns a piece of an upload of content.
func piece(name string, content []byte, from, to int) MediumPiece {
	return MediumPiece{
		Name: name, ID: "1", Size: int64(len(content)), From: int64(from), Length: int64(to - from),
		Body: bytes.NewReader(content[from:to]),
	}
}

// broken is a connection that breaks after its data.
type broken struct{ io.Reader }

var errBroken = errors.New("the connection is lost")

func (b broken) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = errBroken
	}
	return n, err
}

// An upload resumes where its connection broke, also with another process. Its file appears when it is complete.
func TestAnUploadResumes(t *testing.T) {
	t.Parallel()
	h := newHere(t)
	content := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	at, err := h.Receive(t.Context(), false, piece("debian 13.iso", content, 0, 1000))
	require.NoError(t, err)
	require.EqualValues(t, 1000, at)
	lost := piece("debian 13.iso", content, 1000, 5000)
	lost.Body = broken{bytes.NewReader(content[1000:1500])}
	at, err = h.Receive(t.Context(), false, lost)
	require.ErrorIs(t, err, errBroken)
	require.EqualValues(t, 1500, at)

	other := New(h.opts) // another process
	at, err = other.Receive(t.Context(), false, piece("debian 13.iso", content, 0, 0))
	require.NoError(t, err)
	require.EqualValues(t, 1500, at, "a query")
	at, err = other.Receive(t.Context(), false, piece("debian 13.iso", content, 1000, 2000))
	require.NoError(t, err)
	require.EqualValues(t, 1500, at, "a piece from another place is not written")
	list, err := other.Media(false)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.EqualValues(t, 1500, list[0].Received)
	require.EqualValues(t, len(content), list[0].Size)
	require.Equal(t, "debian 13.iso", list[0].Name)

	last := piece("debian 13.iso", content, 1500, len(content))
	last.Body = io.MultiReader(last.Body, bytes.NewReader([]byte("more than announced")))
	at, err = other.Receive(t.Context(), false, last)
	require.NoError(t, err)
	require.EqualValues(t, len(content), at)
	file := filepath.Join(h.dir, "data", "vmrunner-media", "debian 13.iso")
	have, err := os.ReadFile(file)
	require.NoError(t, err)
	require.True(t, bytes.Equal(content, have))
	list, err = h.Media(false)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, file, list[0].File)
	require.EqualValues(t, -1, list[0].Received)
	_, err = h.Receive(t.Context(), false, piece("debian 13.iso", content, 0, 10))
	require.ErrorIs(t, err, ErrUpload, "it never replaces a file")
	require.ErrorContains(t, err, "a file with this name exists")
}

// Uploads with a wrong checksum, a bad name or too little space are refused and leave nothing.
func TestRefusedUploads(t *testing.T) {
	t.Parallel()
	h := newHere(t)
	content := []byte("an image")
	p := piece("a.img", content, 0, len(content))
	p.Checksum = fmt.Sprintf("sha256:%064x", 7)
	_, err := h.Receive(t.Context(), false, p)
	require.ErrorIs(t, err, ErrUpload)
	require.ErrorContains(t, err, "has the checksum sha256:")
	p = piece("a.img", content, 0, len(content))
	p.Checksum = fmt.Sprintf("sha256:%x", sha256.Sum256(content))
	at, err := h.Receive(t.Context(), false, p)
	require.NoError(t, err)
	require.EqualValues(t, len(content), at)
	for _, name := range []string{"", ".hidden", "..", "a/b", `a\b`, "a,b", "a\nb"} {
		_, err := h.Receive(t.Context(), false, piece(name, content, 0, 1))
		require.ErrorIs(t, err, ErrUpload, "%q", name)
		require.ErrorContains(t, err, "is not a valid file name")
		require.ErrorContains(t, h.CancelUpload(false, MediumPiece{Name: name, Size: 1}), "is not a valid file name")
	}
	huge := piece("huge.img", content, 0, 1)
	huge.Size = 1 << 60
	_, err = h.Receive(t.Context(), false, huge)
	require.ErrorIs(t, err, ErrUpload)
	require.ErrorContains(t, err, "are free in")
	cancelled := piece("b.img", content, 0, 2)
	_, err = h.Receive(t.Context(), false, cancelled)
	require.NoError(t, err)
	require.NoError(t, h.CancelUpload(false, cancelled))
	require.NoError(t, h.CancelUpload(false, cancelled))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = h.Receive(ended, false, piece("c.img", content, 0, len(content)))
	require.ErrorIs(t, err, context.Canceled)
	entries, err := os.ReadDir(filepath.Join(h.dir, "data", "vmrunner-media"))
	require.NoError(t, err)
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	require.Len(t, names, 2, "%v", names) // a.img, and what was received of c.img
	require.Contains(t, names, "a.img")
}

// Only one connection sends data of an upload. Old incomplete uploads are removed.
func TestOneSenderAndOldParts(t *testing.T) {
	t.Parallel()
	h := newHere(t)
	content := []byte("an image")
	reader, writer := io.Pipe()
	slow := piece("a.img", content, 0, 8)
	slow.Body = reader
	ended := make(chan error, 1)
	go func() {
		_, err := h.Receive(t.Context(), false, slow)
		ended <- err
	}()
	_, err := writer.Write(content[:3])
	require.NoError(t, err)
	_, err = h.Receive(t.Context(), false, piece("a.img", content, 0, 8))
	require.ErrorIs(t, err, ErrBusy)
	require.NoError(t, writer.CloseWithError(errBroken))
	require.ErrorIs(t, <-ended, errBroken)
	part, err := partOf(slow)
	require.NoError(t, err)
	old := filepath.Join(h.dir, "data", "vmrunner-media", part.fileName())
	past := time.Now().Add(-keptPart - time.Hour)
	require.NoError(t, os.Chtimes(old, past, past))
	_, err = h.Receive(t.Context(), false, piece("b.img", content, 0, 1))
	require.NoError(t, err)
	require.NoFileExists(t, old)
}

// A file that a VM uses is not removed. The computer's files can be read by its VMs.
func TestMediaInUse(t *testing.T) {
	t.Parallel()
	h := newHere(t)
	for _, system := range []bool{false, true} {
		at, err := h.Receive(t.Context(), system, piece(fmt.Sprintf("%v.iso", system), []byte("cd"), 0, 2))
		require.NoError(t, err)
		require.EqualValues(t, 2, at)
	}
	folder, err := h.MediaFolder(false)
	require.NoError(t, err)
	file := filepath.Join(folder, "false.iso")
	h.write("user/vmrunner/web.yaml", text("web", quick, "drives: [{type: ide-cd, file: "+file+"}]"))
	err = h.RemoveMedium(t.Context(), false, "false.iso")
	require.ErrorContains(t, err, "web uses it")
	require.FileExists(t, file)
	require.NoError(t, os.Remove(filepath.Join(h.dir, "user/vmrunner/web.yaml")))
	require.NoError(t, h.RemoveMedium(t.Context(), false, "false.iso"))
	require.ErrorIs(t, h.RemoveMedium(t.Context(), false, "false.iso"), ErrUnknown)
	info, err := os.Stat(filepath.Join(folder, "true.iso"))
	require.NoError(t, err)
	require.Equal(t, "-rw-r--r--", info.Mode().String())
	require.Positive(t, h.MediaFree(false))
}

// Fetched images are listed with their last use, and removed by their ids.
func TestCachedImages(t *testing.T) {
	t.Parallel()
	h := newHere(t)
	cache, err := images.NewCache(h.opts.Places[0].Env)
	require.NoError(t, err)
	h.write("cache/a.raw", make([]byte, 4096))
	require.Equal(t, filepath.Dir(filepath.Dir(cache.Folder)), filepath.Join(h.dir, ".cache"))
	require.NoError(t, os.MkdirAll(cache.Folder, 0o700))
	fetched := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for _, name := range []string{"used-1", "new-2"} {
		about := fmt.Sprintf(`{"source": "%s/1", "url": "https://example.org/x", "fetched": "2026-11-01T00:00:00Z"}`, name)
		for suffix, content := range map[string]string{".raw": "image", ".json": about, ".lock": ""} {
			require.NoError(t, os.WriteFile(filepath.Join(cache.Folder, name+suffix), []byte(content), 0o600))
		}
	}
	earlier := fetched.Add(-time.Minute)
	require.NoError(t, os.Chtimes(filepath.Join(cache.Folder, "new-2.lock"), earlier, earlier))
	list, err := h.CachedImages(false)
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, "new-2", list[0].ID)
	require.True(t, list[0].Used.IsZero())
	require.Equal(t, "used-1/1", list[1].Source)
	require.False(t, list[1].Used.IsZero())
	require.Equal(t, fetched, list[1].Fetched)
	require.NoError(t, h.RemoveCachedImage(t.Context(), false, "used-1"))
	require.ErrorIs(t, h.RemoveCachedImage(t.Context(), false, "used-1"), ErrUnknown)
}

// A clone has copies of the current disks, and the original VM keeps no snapshot.
func TestCloneVM(t *testing.T) {
	t.Parallel()
	h := newHere(t)
	disk := h.write("data/vmrunner/web/disk.img", bytes.Repeat([]byte("d"), 1<<20))
	h.write("user/vmrunner/web.yaml", text("web", quick, "drives: [{type: raw, file: "+disk+"}]"))
	file, err := h.CloneVM(t.Context(), "web", "copy", quiet)
	require.NoError(t, err)
	require.FileExists(t, file)
	have, err := os.ReadFile(filepath.Join(h.dir, "data/vmrunner/copy/disk.img"))
	require.NoError(t, err)
	require.Equal(t, bytes.Repeat([]byte("d"), 1<<20), have)
	list, err := h.Snapshots(t.Context(), "web")
	require.NoError(t, err)
	require.Empty(t, list)
	_, err = h.CloneVM(t.Context(), "web", "copy", quiet)
	require.ErrorIs(t, err, ErrExists)
	_, err = h.CloneVM(t.Context(), "web", "a b", quiet)
	require.ErrorIs(t, err, ErrName)
	own, err := h.OwnData(t.Context(), "copy")
	require.NoError(t, err)
	require.Contains(t, own.String(), "disk.img (1 MiB)")
}
