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
	"vmop/internal/atomicfile"
	"vmop/internal/outbound"
	"vmop/internal/readfile"
	"vmop/runner/config"
	"vmop/vmspec"
)

// A Cache contains fetched images. Each is a sparse raw image, ID.raw, and a description, ID.json, which is
// written when the image is complete. Users of an image hold its lock, ID.lock.
type Cache struct {
	// Folder is the absolute path. The folder need not exist.
	Folder string
	// Lists are files with more named images.
	Lists []string
}

// A Source is the image that a disk is created from, as in a drive of the configuration.
type Source struct {
	// Text is a URL, an absolute path, or a name in the list.
	Text string
	// Checksum is "" or has the form of vmspec.CheckSource.
	Checksum string
}

// NewRemote returns the source of an image that the cache can fetch, by its name or URL.
func NewRemote(text, checksum string) (Source, error) {
	if faults := vmspec.CheckSource(text, checksum); faults != nil {
		return Source{}, fmt.Errorf("%s (%s)", faults[0].Message, faults[0].Hint)
	}
	if vmspec.SourceKindOf(text) == vmspec.SourceFile {
		return Source{}, fmt.Errorf("%s is a file of this computer; it needs no cache", text)
	}
	return Source{Text: text, Checksum: checksum}, nil
}

// A Cached is an image in the cache.
type Cached struct {
	ID string `json:"id"`
	// Source is the requested source, without credentials. URL is where the image came from.
	Source string `json:"source"`
	URL    string `json:"url"`
	// Checksum is the checksum of the transferred file. Wanted is the checksum in the configuration, if any.
	Checksum string `json:"checksum"`
	Wanted   string `json:"wanted,omitempty"`
	// Format is the format of the transferred file; the cached image is raw.
	Format string `json:"format"`
	// Size is the size of the disk, Stored the space that the cached image occupies, both in bytes.
	Size   int64 `json:"size"`
	Stored int64 `json:"stored,omitempty"`
	// Fetched is when the image was fetched.
	Fetched time.Time `json:"fetched"`
	// Used is when a disk was last created from the image; zero if unknown.
	Used time.Time `json:"used,omitzero"`
}

// Suffixes of files in the cache.
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

func (c *Cache) pathOf(id, suffix string) string { return filepath.Join(c.Folder, id+suffix) }

// A held image stays in the cache until it is released.
type held struct {
	Cached
	file string
	*fileLock
}

// holdImage returns the image of a source. It fetches a missing image.
func (c *Cache) holdImage(ctx context.Context, s Source, tell func(Progress)) (*held, error) {
	if err := os.MkdirAll(c.Folder, 0o700); err != nil {
		return nil, fmt.Errorf("make the cache of images: %w", err)
	}
	id := idOf(s)
	for {
		shared, err := c.lockImage(ctx, id, false, tell, s)
		if err != nil {
			return nil, err
		}
		if about, err := c.cachedImage(id); err == nil {
			now := time.Now()
			_ = os.Chtimes(c.pathOf(id, lockSuffix), now, now) // only the shown time of the last use depends on it
			return &held{about, c.pathOf(id, imageSuffix), shared}, nil
		}
		if err := shared.releaseLock(); err != nil {
			return nil, err
		}
		if _, err := c.Pull(ctx, s, false, tell); err != nil {
			return nil, err
		}
	}
}

// lockImage acquires the lock of an image.
func (c *Cache) lockImage(
	ctx context.Context, id string, alone bool, tell func(Progress), s Source,
) (*fileLock, error) {
	waits := false
	l, err := lockFile(ctx, c.pathOf(id, lockSuffix), alone, func() error {
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

// cachedImage returns the description of a complete image.
func (c *Cache) cachedImage(id string) (Cached, error) {
	var about Cached
	info, err := os.Stat(c.pathOf(id, imageSuffix))
	if err != nil {
		return about, err
	}
	text, err := readfile.ReadFile(c.pathOf(id, aboutSuffix), longestAbout)
	if err == nil {
		err = json.Unmarshal(text, &about)
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		const sector = 512 // the unit of st_blocks
		about.Stored = s.Blocks * sector
	}
	about.ID, about.Size = id, info.Size()
	// The lock of an image that was only fetched is older than the image.
	if used, e := os.Stat(c.pathOf(id, lockSuffix)); e == nil && !used.ModTime().Before(about.Fetched) {
		about.Used = used.ModTime().UTC().Truncate(time.Second)
	}
	return about, err
}

// Pull fetches an image into the cache. If the image exists, Pull fetches it only if again is set and the image
// isn't known to match the publisher's current image. It reports whether it has fetched the image.
func (c *Cache) Pull(ctx context.Context, s Source, again bool, tell func(Progress)) (fetched bool, err error) {
	if err := os.MkdirAll(c.Folder, 0o700); err != nil {
		return false, fmt.Errorf("make the cache of images: %w", err)
	}
	id := idOf(s)
	alone, err := c.lockImage(ctx, id, true, tell, s)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, alone.releaseLock()) }()
	about, missing := c.cachedImage(id)
	if missing == nil && !again {
		return false, nil // another process has fetched it in the meantime
	}
	tell(Progress{Step: Fetching, Source: Shown(s.Text)})
	from, checksum, err := c.locateImage(ctx, s)
	if err != nil {
		return false, err
	}
	if missing == nil && checksum != "" && checksum == about.Checksum {
		return false, nil
	}
	return true, c.fetchImage(ctx, id, s, from, checksum, tell)
}

// locateImage returns where an image is, and its expected checksum; "" if that isn't known.
func (c *Cache) locateImage(ctx context.Context, s Source) (from, checksum string, err error) {
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
	return known.resolveKnown(ctx)
}

// fetchImage fetches an image. The caller holds its lock.
func (c *Cache) fetchImage(
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
		Source: sourceOf(from), Checksum: sum, Reach: outbound.NamedBy(from),
		Target:   diskimage.Target{Path: c.pathOf(id, imageSuffix), Mode: readable, Replace: true},
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
	return atomicfile.Write(c.pathOf(id, aboutSuffix), append(text, '\n'), 0o600, atomicfile.Synced)
}

// sourceOf returns the source for a URL.
func sourceOf(from string) diskimage.Source {
	bare, user, password := vmspec.Credentials(from)
	return diskimage.HTTP{URL: bare, Username: user, Password: password}
}

// Images returns the images in the cache, sorted by source.
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
		if about, err := c.cachedImage(id); err == nil { // otherwise it is being removed
			list = append(list, about)
		}
	}
	slices.SortFunc(list, func(a, b Cached) int { return strings.Compare(a.Source+a.ID, b.Source+b.ID) })
	return list, nil
}

// ErrAbsent reports that an image is not in the cache.
var ErrAbsent = errors.New("it is not in the cache")

// Remove removes the images of a source, or the image with an ID. Disks created from them stay.
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
		if err = c.removeImage(ctx, image.ID); err != nil {
			break
		}
		removed = append(removed, image)
	}
	return removed, err
}

// RemoveAll removes all images, and incomplete images left by killed processes.
func (c *Cache) RemoveAll(ctx context.Context) ([]Cached, error) {
	removed, err := c.Images()
	entries, e := os.ReadDir(c.Folder)
	if err = errors.Join(err, e); err != nil {
		return nil, err
	}
	for _, e := range entries {
		if id, is := strings.CutSuffix(e.Name(), lockSuffix); is {
			err = errors.Join(err, c.removeImage(ctx, id))
		}
	}
	return removed, err
}

// removeImage removes an image that no process uses, the description first.
func (c *Cache) removeImage(ctx context.Context, id string) error {
	alone, err := lockFile(ctx, c.pathOf(id, lockSuffix), true, func() error { return errInUse })
	if err != nil {
		return fmt.Errorf("remove %s: %w", id, err)
	}
	defer alone.releaseLock() // the lock is removed together with the file
	for _, suffix := range []string{aboutSuffix, imageSuffix} {
		if e := os.Remove(c.pathOf(id, suffix)); e != nil && !errors.Is(e, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", id, e)
		}
	}
	return errors.Join(diskimage.RemoveLeftovers(c.pathOf(id, imageSuffix)), os.Remove(c.pathOf(id, lockSuffix)))
}
