package images_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/prepare/images"
)

// With its environment variables set, the test program creates the disk DISK from the source SOURCE with the cache
// CACHE.
func TestMain(m *testing.M) {
	if file := os.Getenv("DISK"); file != "" {
		cache := images.Cache{Folder: os.Getenv("CACHE")}
		disk := images.Disk{File: file, Source: images.Source{Text: os.Getenv("SOURCE")}}
		if err := cache.Make(context.Background(), disk, func(images.Progress) {}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// content returns the content of a small disk: data, a hole, data.
func content() []byte {
	disk := make([]byte, 4<<20)
	copy(disk, "the beginning")
	copy(disk[3<<20:], "the end")
	return disk
}

// publisher serves a qcow2 image with its checksums, and counts requests.
type publisher struct {
	*httptest.Server
	t     *testing.T
	image []byte

	mu       sync.Mutex
	requests map[string]int
	// gate, if not nil, blocks the second half of the image until it is closed.
	gate chan struct{}
}

func publish(t *testing.T) *publisher {
	dir := t.TempDir()
	raw, qcow2 := filepath.Join(dir, "raw"), filepath.Join(dir, "qcow2")
	require.NoError(t, os.WriteFile(raw, content(), 0o600))
	out, err := exec.Command("qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, qcow2).CombinedOutput()
	require.NoError(t, err, "%s", out)
	image, err := os.ReadFile(qcow2)
	require.NoError(t, err)
	p := &publisher{t: t, image: image, requests: map[string]int{}}
	p.Server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.Close)
	return p
}

func (p *publisher) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	if r.Method == http.MethodGet {
		p.requests[r.URL.Path]++
	}
	image, gate := p.image, p.gate
	p.mu.Unlock()
	switch r.URL.Path {
	case "/disk.qcow2":
		if gate == nil {
			_, _ = w.Write(image)
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(image)))
		_, _ = w.Write(image[:len(image)/2])
		w.(http.Flusher).Flush()
		select {
		case <-gate:
			_, _ = w.Write(image[len(image)/2:])
		case <-r.Context().Done():
		}
	case "/SUMS":
		fmt.Fprintf(w, "%064x  other.qcow2\n%s  disk.qcow2\n", 7, p.sum())
	case "/WRONG":
		fmt.Fprintf(w, "%064x *disk.qcow2\n", 7)
	default:
		http.NotFound(w, r)
	}
}

// sum returns the image's checksum in hexadecimal digits.
func (p *publisher) sum() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum := sha256.Sum256(p.image)
	return hex.EncodeToString(sum[:])
}

// fetched returns the number of requests for the image.
func (p *publisher) fetched() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests["/disk.qcow2"]
}

// list writes an image list with the publisher's images.
func (p *publisher) list(t *testing.T) string {
	file := filepath.Join(t.TempDir(), images.ListFile)
	text := "images:\n"
	for name, sums := range map[string]string{"ours/1": "SUMS", "ours/wrong": "WRONG", "ours/gone": "GONE"} {
		text += fmt.Sprintf("- {name: %s, url: %s/disk.qcow2, checksums: %s}\n", name, p.URL, sums)
	}
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func quiet(images.Progress) {}
