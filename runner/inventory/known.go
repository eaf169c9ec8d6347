package inventory

import (
	"net/url"

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
	place, err := inv.Place(system)
	if err != nil {
		return nil, err
	}
	cache, err := images.NewCache(place.Env)
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
