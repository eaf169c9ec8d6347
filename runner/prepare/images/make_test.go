package images_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/diskimage"
	"vmop/internal/outbound"
	"vmop/runner/prepare/images"
	"vmop/test/wait"
	"vmop/vmspec"
)

// cacheOf returns an empty cache that knows a publisher's images.
func cacheOf(t *testing.T, p *publisher) *images.Cache {
	return &images.Cache{Folder: filepath.Join(t.TempDir(), "images"), Lists: []string{p.list(t)}}
}

func diskIn(t *testing.T, source string) images.Disk {
	return images.Disk{File: filepath.Join(t.TempDir(), "disk.img"), Source: images.Source{Text: source}}
}

// holds requires that a disk contains the content, followed by zeros up to a size.
func holds(t *testing.T, file string, size int64) {
	t.Helper()
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	want := make([]byte, size)
	copy(want, content())
	require.True(t, string(want) == string(got), "the disk has another content")
}

func TestADiskIsMadeOfAnImage(t *testing.T) {
	t.Parallel()
	p := publish(t)
	local := filepath.Join(t.TempDir(), "local.qcow2")
	require.NoError(t, os.WriteFile(local, p.image, 0o600))
	for name, source := range map[string]images.Source{
		"by name": {Text: "ours/1"}, "by URL": {Text: p.URL + "/disk.qcow2"}, "of a file": {Text: local},
		"with a checksum":            {Text: p.URL + "/disk.qcow2", Checksum: "sha256:" + p.sum()},
		"of a file, with a checksum": {Text: local, Checksum: "sha256:" + p.sum()},
		"by name, with a checksum":   {Text: "ours/wrong", Checksum: "sha256:" + p.sum()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cache, disk := cacheOf(t, p), diskIn(t, "")
			disk.Source = source
			var steps []images.Progress
			require.NoError(t, cache.Make(t.Context(), disk, func(p images.Progress) { steps = append(steps, p) }))
			holds(t, disk.File, 4<<20)
			require.NotEmpty(t, steps)
			require.Equal(t, images.Copying, steps[len(steps)-1].Step)
			var stat syscall.Stat_t
			require.NoError(t, syscall.Stat(disk.File, &stat))
			require.Less(t, stat.Blocks*512, int64(1<<20), "holes stay holes")

			another := diskIn(t, "")
			another.Source, another.Size = source, 8<<20
			require.NoError(t, cache.Make(t.Context(), another, quiet))
			holds(t, another.File, 8<<20)
		})
	}
}

// An image is fetched once when several disks are created from it at the same time.
func TestAnImageIsFetchedOnce(t *testing.T) {
	t.Parallel()
	p := publish(t)
	p.gate = make(chan struct{})
	cache := cacheOf(t, p)
	waits := make(chan struct{}, 8)
	var all sync.WaitGroup
	for range 4 {
		disk := diskIn(t, "ours/1")
		var once sync.Once
		all.Go(func() {
			err := cache.Make(t.Context(), disk, func(now images.Progress) {
				if now.Step == images.Waiting || now.Step == images.Fetching {
					once.Do(func() { waits <- struct{}{} })
				}
			})
			if err == nil {
				_, err = os.Stat(disk.File)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range 4 {
		<-waits
	}
	close(p.gate)
	all.Wait()
	require.Equal(t, 1, p.fetched())
	list, err := cache.Images()
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "ours/1", list[0].Source)
	require.Equal(t, "sha256:"+p.sum(), list[0].Checksum)
	require.Equal(t, "qcow2", list[0].Format)
	require.Equal(t, int64(4<<20), list[0].Size)
}

func TestWhatCannotBeMadeLeavesNoDisk(t *testing.T) {
	t.Parallel()
	p := publish(t)
	for name, test := range map[string]struct {
		source images.Source
		size   int64
		reason diskimage.Reason
		text   string
		path   string // of the error
	}{
		"nothing there": {
			images.Source{Text: p.URL + "/gone.qcow2"}, 0, diskimage.SourceNotFound, "404", "source",
		},
		"no publisher's checksum": {
			images.Source{Text: "ours/gone"},
			0, "",
			"fetch the checksum of ours/gone: " + p.URL + "/GONE: the server answers 404", "",
		},
		"wrong checksum of the publisher": {
			images.Source{Text: "ours/wrong"}, 0, diskimage.ChecksumMismatch, p.sum(), "source",
		},
		"wrong checksum of the configuration": {
			images.Source{Text: "ours/1", Checksum: "sha256:" + strings.Repeat("0", 64)},
			0, diskimage.ChecksumMismatch,
			p.sum(), "sourceChecksum",
		},
		"unknown name": {
			images.Source{Text: "our/1"}, 0, "", "our/1: there is no image of that name (did you mean ours/1?)", "source",
		},
		"smaller than the image": {
			images.Source{Text: "ours/1"},
			1 << 20, diskimage.ImageTooLarge,
			"has 4.00 MiB, more than the allowed 1 MiB", "size",
		},
		"no file": {images.Source{Text: "/gone.img"}, 0, diskimage.SourceNotFound, "/gone.img", "source"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cache, disk := cacheOf(t, p), diskIn(t, "")
			disk.Source, disk.Size = test.source, test.size
			err := cache.Make(t.Context(), disk, quiet)
			require.ErrorContains(t, err, test.text)
			if test.reason != "" {
				require.Equal(t, test.reason, diskimage.ReasonOf(err))
			}
			drive := vmspec.Drive{
				Source: test.source.Text, SourceChecksum: test.source.Checksum, Size: vmspec.Bytes(test.size),
			}
			fault, is := images.Fault(3, drive, err)
			require.Equal(t, test.path != "", is)
			if is {
				require.Equal(t, "vm.drives[3]."+test.path, fault.Path)
			}
			entries, err := os.ReadDir(filepath.Dir(disk.File))
			require.NoError(t, err)
			require.Empty(t, entries)
		})
	}
}

func TestADiskThatIsThereStays(t *testing.T) {
	t.Parallel()
	p := publish(t)
	cache, disk := cacheOf(t, p), diskIn(t, "ours/1")
	require.NoError(t, os.WriteFile(disk.File, []byte("precious"), 0o600))
	err := cache.Make(t.Context(), disk, quiet)
	require.Equal(t, diskimage.TargetExists, diskimage.ReasonOf(err), "%v", err)
	text, err := os.ReadFile(disk.File)
	require.NoError(t, err)
	require.Equal(t, "precious", string(text))

	disk.Replace = true
	require.NoError(t, cache.Make(t.Context(), disk, quiet))
	holds(t, disk.File, 4<<20)
}

// A killed process leaves no disk, and the next process creates it.
func TestAKilledProcessLeavesNoDisk(t *testing.T) {
	t.Parallel()
	p := publish(t)
	p.gate = make(chan struct{})
	cache, disk := cacheOf(t, p), diskIn(t, p.URL+"/disk.qcow2")
	self, err := os.Executable()
	require.NoError(t, err)
	victim := exec.Command(self)
	victim.Env = append(os.Environ(), "DISK="+disk.File, "SOURCE="+disk.Text, "CACHE="+cache.Folder)
	require.NoError(t, victim.Start())
	wait.Until(t, func() bool { return p.fetched() == 1 })
	require.NoError(t, victim.Process.Kill())
	_ = victim.Wait()
	require.NoFileExists(t, disk.File)
	list, err := cache.Images()
	require.NoError(t, err)
	require.Empty(t, list)

	close(p.gate)
	require.NoError(t, cache.Make(t.Context(), disk, quiet))
	holds(t, disk.File, 4<<20)
	entries, err := os.ReadDir(filepath.Dir(disk.File))
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

// Canceling the context ends a download.
func TestMakingADiskEndsWithItsContext(t *testing.T) {
	t.Parallel()
	p := publish(t)
	p.gate = make(chan struct{})
	defer close(p.gate)
	ctx, cancel := context.WithCancelCause(t.Context())
	asked := errors.New("asked to stop")
	cache, disk := cacheOf(t, p), diskIn(t, p.URL+"/disk.qcow2")
	err := cache.Make(ctx, disk, func(now images.Progress) {
		if now.Bytes > 0 {
			cancel(asked)
		}
	})
	require.Error(t, err)
	require.NoFileExists(t, disk.File)
}

// The configuration may name a server on this computer. A redirect, a name or a checksum list from there can't lead to
// another internal address.
func TestSourcesLeadToNoInternalAddress(t *testing.T) {
	t.Parallel()
	p := publish(t)
	to302 := func(target string) string {
		server := httptest.NewServer(http.RedirectHandler(target, http.StatusFound))
		t.Cleanup(server.Close)
		return server.URL + "/disk.qcow2"
	}
	for _, source := range []string{
		to302(p.URL + "/disk.qcow2"), to302("http://169.254.169.254/"), "http://169.254.169.254/disk.qcow2",
		"http://[::ffff:169.254.169.254]/disk.qcow2",
	} {
		disk := diskIn(t, source)
		err := cacheOf(t, p).Make(t.Context(), disk, quiet)
		require.Equal(t, diskimage.AddressRefused, diskimage.ReasonOf(err), "%s: %v", source, err)
		require.NoFileExists(t, disk.File)
	}
	require.Zero(t, p.fetched())
	list := filepath.Join(t.TempDir(), images.ListFile)
	text := "images: [{name: ours/1, url: " + p.URL + "/disk.qcow2, checksums: " + to302(p.URL+"/SUMS") + "}]\n"
	require.NoError(t, os.WriteFile(list, []byte(text), 0o600))
	cache := &images.Cache{Folder: filepath.Join(t.TempDir(), "images"), Lists: []string{list}}
	require.ErrorAs(t, cache.Make(t.Context(), diskIn(t, "ours/1"), quiet), new(*outbound.RefusedError))
}

// A disk with a source is missing if its folder exists and the disk does not.
func TestWhichDisksAreMissing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	there := filepath.Join(dir, "there")
	require.NoError(t, os.WriteFile(there, nil, 0o600))
	require.Equal(t, []int{1}, images.Missing([]vmspec.Drive{
		{File: there, Source: "debian/12"},
		{File: filepath.Join(dir, "absent"), Source: "debian/12"},
		{File: filepath.Join(dir, "absent")},
		{File: filepath.Join(dir, "no/folder"), Source: "debian/12"},
		{Source: "debian/12"},
	}))
}
