package inventory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"vmop/diskimage"
	"vmop/internal/atomicfile"
	"vmop/vmspec"
)

// A MediumPiece is a part of a file that is uploaded.
type MediumPiece struct {
	// Name is the name of the file. ID identifies the upload, together with Name and Size, the full size in bytes.
	Name, ID string
	Size     int64
	// Checksum of the whole file, such as sha256:…; "" means no check.
	Checksum string
	// From is the offset of the piece, Length its length. A piece without data queries the progress.
	From, Length int64
	Body         io.Reader
}

// Errors of uploads.
var (
	// ErrBusy: another connection sends data of the same upload.
	ErrBusy = errors.New("another connection is sending this file")
	// ErrUpload: the upload is refused, for a reason that the user can change.
	ErrUpload = errors.New("cannot upload")
)

// keptPart is how long an incomplete upload is kept after its last piece.
const keptPart = 7 * 24 * time.Hour

// A mediumPart is an incomplete upload. Its file has the received bytes.
type mediumPart struct {
	name string
	size int64
	id   string // hexadecimal digits
}

// partOf returns the part of a piece. It refuses a name that leads out of the folder.
func partOf(p MediumPiece) (mediumPart, error) {
	if err := checkMediumName(p.Name); err != nil {
		return mediumPart{}, fmt.Errorf("%w: %w", ErrUpload, err)
	}
	sum := sha256.Sum256([]byte(p.ID + "\n" + p.Checksum))
	return mediumPart{p.Name, p.Size, hex.EncodeToString(sum[:6])}, nil
}

// fileName returns the name of the file with the received bytes.
func (m mediumPart) fileName() string { return fmt.Sprintf(".%s.%d.%s.part", m.name, m.size, m.id) }

// parsePart parses the name of a part's file.
func parsePart(file string) (m mediumPart, ok bool) {
	found := regexp.MustCompile(`^\.(.+)\.(\d+)\.([0-9a-f]{12})\.part$`).FindStringSubmatch(file)
	if found == nil {
		return m, false
	}
	size, err := strconv.ParseInt(found[2], 10, 64)
	return mediumPart{found[1], size, found[3]}, err == nil
}

// CheckUpload reports whether a file of a name and size can be uploaded. A negative size is unknown.
func (inv *Inventory) CheckUpload(system bool, name string, size int64) error {
	if err := checkMediumName(name); err != nil {
		return fmt.Errorf("%w: %w", ErrUpload, err)
	}
	folder, err := inv.MediaFolder(system)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(folder, name)); err == nil {
		return fmt.Errorf("%w %s: a file with this name exists in %s; delete it, or choose another name", ErrUpload, name, folder)
	}
	if free := inv.MediaFree(system); size > free {
		return lackOfSpace(name, folder, size, free)
	}
	return nil
}

func lackOfSpace(name, folder string, size, free int64) error {
	return fmt.Errorf("%w %s: it needs %s, and only %s are free in %s; delete images or files that you no longer need",
		ErrUpload, name, vmspec.Bytes(size), vmspec.Bytes(free), folder)
}

// Receive writes a piece of an upload to the folder for uploads, and returns the number of received bytes. If that is
// the size of the file, the file is complete and on the disk. A repeated or early piece is not written. Received data
// survives a lost connection and the end of this process.
//
// The error wraps ErrUpload if the upload is refused, and ErrBusy if another connection sends data.
func (inv *Inventory) Receive(ctx context.Context, system bool, p MediumPiece) (at int64, err error) {
	part, err := partOf(p)
	if err != nil {
		return 0, err
	}
	place, err := inv.Place(system)
	if err != nil {
		return 0, err
	}
	folder, err := place.makeMediaFolder()
	if err != nil {
		return 0, err
	}
	removeOldParts(folder)
	path := filepath.Join(folder, part.fileName())
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if err := inv.CheckUpload(system, p.Name, p.Size); err != nil {
			return 0, err
		}
	}
	file, err := openPart(path, part, folder)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	if at, err = file.Seek(0, io.SeekEnd); err != nil {
		return 0, err
	}
	if p.Length > 0 && p.From == at {
		n, err := io.Copy(file, io.LimitReader(p.Body, min(p.Length, part.size-at)))
		at += n
		if errors.Is(err, unix.ENOSPC) {
			free, _ := freeSpace(folder)
			return at, lackOfSpace(p.Name, folder, part.size-at, free)
		} else if err != nil {
			return at, fmt.Errorf("upload %s: %w", p.Name, err)
		}
	}
	if at < part.size || ctx.Err() != nil {
		return at, ctx.Err()
	}
	return at, completePart(ctx, file, part, filepath.Join(folder, p.Name), p.Checksum, place.mediumMode())
}

// CancelUpload removes the received bytes of an upload.
func (inv *Inventory) CancelUpload(system bool, p MediumPiece) error {
	part, err := partOf(p)
	if err != nil {
		return err
	}
	folder, err := inv.MediaFolder(system)
	if err != nil {
		return err
	}
	err = os.Remove(filepath.Join(folder, part.fileName()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// openPart opens the file of a part, and locks it. A new file gets its space immediately, so that a full disk shows up
// at the beginning.
func openPart(path string, part mediumPart, folder string) (_ *os.File, err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("upload %s: %w", part.name, err)
	}
	defer func() {
		if err != nil {
			_ = file.Close() // err is more important
		}
	}()
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("upload %s: %w", part.name, ErrBusy)
	} else if err != nil {
		return nil, fmt.Errorf("upload %s: %w", part.name, err)
	}
	info, err := file.Stat()
	if err != nil || info.Size() > 0 {
		return file, err
	}
	err = unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, part.size)
	if errors.Is(err, unix.ENOSPC) {
		free, _ := freeSpace(folder)
		return nil, errors.Join(lackOfSpace(part.name, folder, part.size, free), os.Remove(path))
	}
	return file, nil // not all file systems can reserve space
}

// completePart checks a complete file, and gives it its name.
func completePart(
	ctx context.Context, file *os.File, part mediumPart, to, checksum string, mode fs.FileMode,
) error {
	if err := checkPart(ctx, file, checksum); ctx.Err() != nil {
		return ctx.Err()
	} else if err != nil {
		return errors.Join(fmt.Errorf("%w %s: %w", ErrUpload, part.name, err), os.Remove(file.Name()))
	}
	if err := errors.Join(file.Chmod(mode), file.Sync()); err != nil {
		return fmt.Errorf("upload %s: %w", part.name, err)
	}
	err := unix.Renameat2(unix.AT_FDCWD, file.Name(), unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // an old file system
		if _, there := os.Lstat(to); there != nil {
			err = os.Rename(file.Name(), to)
		} else {
			err = fs.ErrExist
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w %s: a file with this name exists in %s; delete it, or choose another name", ErrUpload,
			part.name, filepath.Dir(to))
	} else if err != nil {
		return fmt.Errorf("upload %s: %w", part.name, err)
	}
	return atomicfile.SyncFolder(filepath.Dir(to))
}

// checkPart compares the checksum of a file; "" matches every file.
func checkPart(ctx context.Context, file *os.File, checksum string) error {
	wanted, err := diskimage.ParseChecksum(checksum)
	if err != nil || checksum == "" {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return wanted.Verify(endingReader{ctx, file})
}

// endingReader reads until ctx is done.
type endingReader struct {
	ctx  context.Context
	from io.Reader
}

// Read implements io.Reader.
func (r endingReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(p)
}

// removeOldParts removes incomplete uploads that were not resumed in time.
func removeOldParts(folder string) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return
	}
	for _, e := range entries {
		if _, is := parsePart(e.Name()); !is {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > keptPart {
			_ = os.Remove(filepath.Join(folder, e.Name())) // the next upload tries again
		}
	}
}
