package images

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"vmop/diskimage"
	"vmop/durable"
	"vmop/outbound"
	"vmop/regular"
	"vmop/runner/config"
	"vmop/vmspec"
)

// A Cache has images that were fetched. Each is a raw image with holes, ID.raw, and a description,
// ID.json, which is written when the image is complete. ID.lock is held by those who use it.
type Cache struct {
	// Folder is its path, absolute. It need not exist.
	Folder string
	// Lists are the files that add to the list of images that have names.
	Lists []string
}

// A Source is what a disk is made of, as a drive of the configuration has it.
type Source struct {
	// Text is a URL, an absolute path, or a name of the list.
	Text string
	// Checksum is "" or as vmspec.CheckSource wants it.
	Checksum string
}

// A Cached is an image in the cache.
type Cached struct {
	ID string `json:"id"`
	// Source is what it was asked for by, without credentials, and URL where it came from.
	Source string `json:"source"`
	URL    string `json:"url"`
	// Checksum of what was transferred; Wanted is what the configuration has, if it does.
	Checksum string `json:"checksum"`
	Wanted   string `json:"wanted,omitempty"`
	// Format is that in which it came; here it is raw.
	Format string `json:"format"`
	// Size is that of the disk, Stored what the cache has of it without holes, in bytes.
	Size   int64 `json:"size"`
	Stored int64 `json:"stored,omitempty"`
	// Fetched is when.
	Fetched time.Time `json:"fetched"`
}

// Names of files in the cache.
const (
	imageSuffix = ".raw"
	aboutSuffix = ".json"
	lockSuffix  = ".lock"
)

// longestAbout bounds a description, in bytes.
const longestAbout = 64 << 10

// NewCache returns the cache of an environment: "images" in its cache directory.
func NewCache(env config.Env) (*Cache, error) {
	folder, err := env.CacheDirectory()
	if err != nil {
		return nil, err
	}
	return &Cache{Folder: filepath.Join(folder, "images"), Lists: Lists(env)}, nil
}

// idOf returns the name of a source's files.
func idOf(s Source) string {
	bare, _, _ := vmspec.Credentials(s.Text)
	label := strings.ReplaceAll(bare, "/", "-")
	if vmspec.SourceKindOf(s.Text) != vmspec.SourceName {
		label = imageFile(bare)
	}
	label = strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '_'
	}, strings.TrimLeft(label, "."))
	const longestLabel = 40
	sum := sha256.Sum256([]byte(bare + "\n" + s.Checksum))
	return fmt.Sprintf("%s-%x", label[:min(len(label), longestLabel)], sum[:6])
}

func (c *Cache) path(id, suffix string) string { return filepath.Join(c.Folder, id+suffix) }

// A held image stays in the cache until it is released.
type held struct {
	Cached
	file string
	*fileLock
}

// hold returns the image of a source, which it fetches if it isn't there.
func (c *Cache) hold(ctx context.Context, s Source, tell func(Progress)) (*held, error) {
	if err := os.MkdirAll(c.Folder, 0o700); err != nil {
		return nil, fmt.Errorf("make the cache of images: %w", err)
	}
	id := idOf(s)
	for {
		shared, err := c.lock(ctx, id, false, tell, s)
		if err != nil {
			return nil, err
		}
		if about, err := c.about(id); err == nil {
			return &held{about, c.path(id, imageSuffix), shared}, nil
		}
		if err := shared.release(); err != nil {
			return nil, err
		}
		if _, err := c.Pull(ctx, s, false, tell); err != nil {
			return nil, err
		}
	}
}

// lock takes the lock of an image.
func (c *Cache) lock(
	ctx context.Context, id string, alone bool, tell func(Progress), s Source,
) (*fileLock, error) {
	waits := false
	l, err := lock(ctx, c.path(id, lockSuffix), alone, func() error {
		if !waits {
			tell(Progress{Step: Waiting, Source: Shown(s.Text)})
		}
		waits = true
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("lock the image in the cache: %w", err)
	}
	return l, nil
}

// about returns the description of an image that is complete.
func (c *Cache) about(id string) (Cached, error) {
	var about Cached
	info, err := os.Stat(c.path(id, imageSuffix))
	if err != nil {
		return about, err
	}
	text, err := regular.ReadFile(c.path(id, aboutSuffix), longestAbout)
	if err == nil {
		err = json.Unmarshal(text, &about)
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		const sector = 512 // st_blocks counts these
		about.Stored = s.Blocks * sector
	}
	about.ID, about.Size = id, info.Size()
	return about, err
}

// Pull fetches an image into the cache; one that is there only if again is set and it is not known
// to be what its publisher has now. It reports whether it has fetched it.
func (c *Cache) Pull(ctx context.Context, s Source, again bool, tell func(Progress)) (fetched bool, err error) {
	if err := os.MkdirAll(c.Folder, 0o700); err != nil {
		return false, fmt.Errorf("make the cache of images: %w", err)
	}
	id := idOf(s)
	alone, err := c.lock(ctx, id, true, tell, s)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, alone.release()) }()
	about, missing := c.about(id)
	if missing == nil && !again {
		return false, nil // another process has fetched it meanwhile
	}
	tell(Progress{Step: Fetching, Source: Shown(s.Text)})
	from, checksum, err := c.locate(ctx, s)
	if err != nil {
		return false, err
	}
	if missing == nil && checksum != "" && checksum == about.Checksum {
		return false, nil
	}
	return true, c.fetch(ctx, id, s, from, checksum, tell)
}

// locate returns where an image is, and what checksum it is to have; "" if that isn't known.
func (c *Cache) locate(ctx context.Context, s Source) (from, checksum string, err error) {
	if vmspec.SourceKindOf(s.Text) != vmspec.SourceName {
		return s.Text, s.Checksum, nil
	}
	list, err := Read(c.Lists...)
	if err != nil {
		return "", "", err
	}
	known, err := list.Find(s.Text)
	if err != nil {
		return "", "", err
	}
	if s.Checksum != "" {
		return known.URL, s.Checksum, nil
	}
	return known.resolve(ctx)
}

// fetch fetches an image, whose lock is held.
func (c *Cache) fetch(
	ctx context.Context, id string, s Source, from, checksum string, tell func(Progress),
) error {
	sum, err := diskimage.ParseChecksum(checksum)
	if checksum == "" {
		sum, err = diskimage.Checksum{}, nil
	}
	if err != nil {
		return err
	}
	const readable = 0o400
	result, err := diskimage.Import{
		Source: fetchable(from), Checksum: sum, Reach: outbound.NamedBy(from),
		Target:   diskimage.Target{Path: c.path(id, imageSuffix), Mode: readable, Replace: true},
		Progress: func(p diskimage.Progress) { tell(progressOf(Fetching, s, p)) },
	}.Run(ctx)
	if diskimage.ReasonOf(err) == diskimage.NoSpace {
		err = fmt.Errorf("%w; the cache %s needs room for the image: vmrunner image list shows what is in it, "+
			"vmrunner image remove makes room", err, c.Folder)
	}
	if err != nil {
		return err
	}
	bare, _, _ := vmspec.Credentials(from)
	text, err := json.MarshalIndent(Cached{
		ID: id, Source: Shown(s.Text), URL: bare, Checksum: result.Checksum, Wanted: s.Checksum,
		Format: string(result.Format), Size: result.VirtualSize, Fetched: time.Now().UTC().Truncate(time.Second),
	}, "", "  ")
	if err != nil {
		return err
	}
	return durable.Write(c.path(id, aboutSuffix), append(text, '\n'), 0o600, durable.Synced)
}

// fetchable returns what a URL leads to.
func fetchable(from string) diskimage.Source {
	bare, user, password := vmspec.Credentials(from)
	return diskimage.HTTP{URL: bare, Username: user, Password: password}
}

// Images returns what is in the cache, by source.
func (c *Cache) Images() ([]Cached, error) {
	entries, err := os.ReadDir(c.Folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("list the cache of images: %w", err)
	}
	var list []Cached
	for _, e := range entries {
		id, is := strings.CutSuffix(e.Name(), aboutSuffix)
		if !is {
			continue
		}
		if about, err := c.about(id); err == nil { // else it is being removed
			list = append(list, about)
		}
	}
	slices.SortFunc(list, func(a, b Cached) int { return strings.Compare(a.Source+a.ID, b.Source+b.ID) })
	return list, nil
}

// ErrAbsent says that an image is not in the cache.
var ErrAbsent = errors.New("it is not in the cache")

// Remove removes the images of a source, or the one of an ID. Disks that were made of them stay.
func (c *Cache) Remove(ctx context.Context, source string) ([]Cached, error) {
	all, err := c.Images()
	if err != nil {
		return nil, err
	}
	var removed []Cached
	err = fmt.Errorf("remove %s: %w", source, ErrAbsent)
	for _, image := range all {
		if image.ID != source && image.Source != Shown(source) {
			continue
		}
		if err = c.remove(ctx, image.ID); err != nil {
			break
		}
		removed = append(removed, image)
	}
	return removed, err
}

// RemoveAll removes all images, and what killed processes have left of others.
func (c *Cache) RemoveAll(ctx context.Context) ([]Cached, error) {
	removed, err := c.Images()
	entries, e := os.ReadDir(c.Folder)
	if err = errors.Join(err, e); err != nil {
		return nil, err
	}
	for _, e := range entries {
		if id, is := strings.CutSuffix(e.Name(), lockSuffix); is {
			err = errors.Join(err, c.remove(ctx, id))
		}
	}
	return removed, err
}

// remove removes an image that no process uses, the description first.
func (c *Cache) remove(ctx context.Context, id string) error {
	alone, err := lock(ctx, c.path(id, lockSuffix), true, func() error { return errInUse })
	if err != nil {
		return fmt.Errorf("remove %s: %w", id, err)
	}
	defer alone.release() // it is gone with the file
	for _, suffix := range []string{aboutSuffix, imageSuffix} {
		if e := os.Remove(c.path(id, suffix)); e != nil && !errors.Is(e, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", id, e)
		}
	}
	return errors.Join(diskimage.RemoveLeftovers(c.path(id, imageSuffix)), os.Remove(c.path(id, lockSuffix)))
}
