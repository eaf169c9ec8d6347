package inventory

import (
	"context"
	"errors"
	"net/url"
	"time"

	"vmop/runner/prepare/images"
)

// A KnownImage is an image with a name that disks of new VMs can be copies of.
type KnownImage struct {
	Name string
	// Host is the web server with the image.
	Host string
	// Size of a disk with the image in bytes; 0 if the image is not in the cache.
	Size int64
}

// KnownImages returns the images with names, sorted by name. system chooses the lists and the cache of the computer
// instead of the user.
func (inv *Inventory) KnownImages(system bool) (all []KnownImage, err error) {
	cache, err := inv.placeCache(system)
	if err != nil {
		return nil, err
	}
	list, err := images.Read(cache.Lists...)
	if err != nil {
		return nil, err
	}
	for _, k := range list {
		image := KnownImage{Name: k.Name, Size: cache.SizeOf(images.Source{Text: k.Name})}
		if at, err := url.Parse(k.URL); err == nil {
			image.Host = at.Host
		}
		all = append(all, image)
	}
	return all, nil
}

// A CachedImage is an image that was fetched for disks, and that can be fetched again.
type CachedImage struct {
	// ID is unique. Source is the requested image: a name or a URL without a password. URL is where it came from.
	ID, Source, URL string
	// Size is the size of the disk, Stored the space that the image occupies, both in bytes.
	Size, Stored int64
	// Fetched is when it was fetched. Used is when a disk was last created from it; zero if unknown.
	Fetched, Used time.Time
}

// CachedImages returns the images in the cache of the user, or of the computer if system is true, sorted by source.
func (inv *Inventory) CachedImages(system bool) (all []CachedImage, err error) {
	cache, err := inv.placeCache(system)
	if err != nil {
		return nil, err
	}
	list, err := cache.Images()
	for _, i := range list {
		all = append(all, CachedImage{
			ID: i.ID, Source: i.Source, URL: i.URL, Size: i.Size, Stored: i.Stored, Fetched: i.Fetched, Used: i.Used,
		})
	}
	return all, err
}

// CheckImage returns an error if an image with this name or URL can't be fetched.
func CheckImage(image, checksum string) error {
	_, err := images.NewRemote(image, checksum)
	return err
}

// FetchImage fetches an image by its name or URL into the cache of the user, or of the computer if system is true. A
// cached image is fetched again unless the publisher's checksum shows that it is current. progress receives the
// current step and its progress in percent.
func (inv *Inventory) FetchImage(
	ctx context.Context, system bool, image, checksum string, progress func(step string, percent float64),
) error {
	source, err := images.NewRemote(image, checksum)
	if err != nil {
		return err
	}
	cache, err := inv.placeCache(system)
	if err != nil {
		return err
	}
	_, err = cache.Pull(ctx, source, true, func(p images.Progress) { progress(string(p.Step), p.Percent) })
	return err
}

// RemoveCachedImage removes an image from the cache by its ID. Disks that were created from it stay. The error is
// ErrUnknown if the cache doesn't contain the image. An image that a process is using isn't removed.
func (inv *Inventory) RemoveCachedImage(ctx context.Context, system bool, id string) error {
	cache, err := inv.placeCache(system)
	if err != nil {
		return err
	}
	if _, err = cache.Remove(ctx, id); errors.Is(err, images.ErrAbsent) {
		return errors.Join(err, ErrUnknown)
	}
	return err
}

// placeCache returns the image cache of the user, or of the computer.
func (inv *Inventory) placeCache(system bool) (*images.Cache, error) {
	place, err := inv.Place(system)
	if err != nil {
		return nil, err
	}
	return images.NewCache(place.Env)
}
