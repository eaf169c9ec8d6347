package images_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/prepare/images"
)

func TestPullFetchesWhatThePublisherHasNow(t *testing.T) {
	t.Parallel()
	p := publish(t)
	cache, source := cacheOf(t, p), images.Source{Text: "ours/1"}
	pull := func() bool {
		fetched, err := cache.Pull(t.Context(), source, true, quiet)
		require.NoError(t, err)
		return fetched
	}
	require.True(t, pull())
	require.False(t, pull(), "the publisher has no other image")
	p.mu.Lock()
	p.image = append([]byte{}, p.image...)
	p.image = append(p.image, make([]byte, 512)...)
	p.mu.Unlock()
	require.True(t, pull())
	require.Equal(t, 2, p.fetched())
	list, err := cache.Images()
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "sha256:"+p.sum(), list[0].Checksum)
	disk := diskIn(t, "ours/1")
	require.NoError(t, cache.Make(t.Context(), disk, quiet))
	holds(t, disk.File, 4<<20)
	require.Equal(t, 2, p.fetched(), "what is in the cache is used without asking")
}

func TestRemovedImagesLeaveTheirDisks(t *testing.T) {
	t.Parallel()
	p := publish(t)
	cache, disk := cacheOf(t, p), diskIn(t, "ours/1")
	require.NoError(t, cache.Make(t.Context(), disk, quiet))
	_, err := cache.Remove(t.Context(), "ours/2")
	require.ErrorIs(t, err, images.ErrAbsent)
	removed, err := cache.Remove(t.Context(), "ours/1")
	require.NoError(t, err)
	require.Len(t, removed, 1)
	entries, err := os.ReadDir(cache.Folder)
	require.NoError(t, err)
	require.Empty(t, entries, "nothing is left")
	holds(t, disk.File, 4<<20)

	by := images.Source{Text: p.URL + "/disk.qcow2"}
	_, err = cache.Pull(t.Context(), by, false, quiet)
	require.NoError(t, err)
	removed, err = cache.RemoveAll(t.Context())
	require.NoError(t, err)
	require.Len(t, removed, 1)
	entries, err = os.ReadDir(cache.Folder)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// An image in use by a download is not removed.
func TestAnImageInUseStays(t *testing.T) {
	t.Parallel()
	p := publish(t)
	cache := cacheOf(t, p)
	source := images.Source{Text: "ours/1"}
	_, err := cache.Pull(t.Context(), source, false, quiet)
	require.NoError(t, err)
	p.mu.Lock()
	p.gate, p.image = make(chan struct{}), append(p.image, make([]byte, 512)...)
	p.mu.Unlock()
	begun, ended := make(chan struct{}), make(chan error)
	go func() {
		told := false
		_, err := cache.Pull(t.Context(), source, true, func(p images.Progress) {
			if !told && p.Step == images.Fetching { // not a wait for a lock in a fork
				told = true
				close(begun)
			}
		})
		ended <- err
	}()
	<-begun
	_, err = cache.Remove(t.Context(), "ours/1")
	require.ErrorContains(t, err, "another process is using it")
	close(p.gate)
	require.NoError(t, <-ended)
}
