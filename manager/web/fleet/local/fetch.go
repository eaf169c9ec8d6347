package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"vmop/manager/web/fleet"
	"vmop/runner/inventory"
	"vmop/vmspec"
)

// fetches are the images that are being fetched or could not be fetched, by source.
type fetches struct {
	mu  sync.Mutex
	all map[string]*fetching
}

// fetching is an image that is being fetched, or could not be fetched.
type fetching struct {
	cancel  context.CancelFunc
	began   time.Time
	step    string // of the runner
	percent int    // of the step
	failed  error
}

// startFetch records that an image is being fetched. It returns false if that already was so.
func (f *fetches) startFetch(image string, cancel context.CancelFunc) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if old := f.all[image]; old != nil && old.failed == nil {
		return false
	}
	if f.all == nil {
		f.all = map[string]*fetching{}
	}
	f.all[image] = &fetching{cancel: cancel, began: time.Now()}
	return true
}

// setProgress records the progress of an image. It reports whether pages should show it.
func (f *fetches) setProgress(image, step string, percent int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	of := f.all[image]
	if of == nil || of.step == step && of.percent == percent {
		return false
	}
	of.step, of.percent = step, percent
	return true
}

// endFetch records the end of an attempt. A failed one is kept, unless it was canceled.
func (f *fetches) endFetch(image string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if of := f.all[image]; of != nil && err != nil && !errors.Is(err, context.Canceled) {
		of.failed = err
		return
	}
	delete(f.all, image)
}

// cancelFetch ends the attempt to fetch an image, and forgets a failed one. It reports whether there was one.
func (f *fetches) cancelFetch(image string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	of := f.all[image]
	if of == nil {
		return false
	}
	of.cancel()
	if of.failed != nil {
		delete(f.all, image)
	}
	return true
}

// listFetches returns the images as pages show them, sorted by source.
func (f *fetches) listFetches() (all []fleet.Volume) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, image := range slices.Sorted(maps.Keys(f.all)) {
		of := f.all[image]
		v := fleet.Volume{
			Kind: fleet.CachedImage, Name: image, Source: image, State: "Provisioning", Added: of.began,
			Progress: fmt.Sprintf("%d%%", of.percent),
		}
		if of.failed != nil {
			v.State, v.Progress, v.Message = "Failed", "", of.failed.Error()
		}
		all = append(all, v)
	}
	return all
}

// fetchImage begins to fetch an image by its name or URL. Disks shows the progress, and a failure until DeleteDisk
// removes it or another attempt follows. DeleteDisk also cancels it.
func (f *Fleet) fetchImage(ctx context.Context, image, checksum string) error {
	if err := inventory.CheckImage(image, checksum); err != nil {
		return fleet.Refusal(err.Error())
	}
	shown, _, _ := vmspec.Credentials(image)
	whole, cancel := context.WithCancel(context.WithoutCancel(ctx))
	if !f.fetches.startFetch(shown, cancel) {
		cancel()
		return fleet.Refusal(shown + " is already being fetched")
	}
	f.Touch()
	go func() {
		defer cancel()
		err := f.inventory.FetchImage(whole, f.isSystem(), image, checksum, func(step string, percent float64) {
			if f.fetches.setProgress(shown, step, int(percent)) {
				f.Touch()
			}
		})
		if err != nil {
			f.log.Warn("image not fetched", "image", shown, "err", err)
		}
		f.fetches.endFetch(shown, err)
		f.Touch()
	}()
	return nil
}

// listKnown returns the images with names.
func (f *Fleet) listKnown() ([]fleet.KnownImage, error) {
	known, err := f.inventory.KnownImages(f.isSystem())
	all := make([]fleet.KnownImage, len(known))
	for i, k := range known {
		all[i] = fleet.KnownImage(k)
	}
	return all, err
}
