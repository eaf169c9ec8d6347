package check

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"vmop/vmtypes/plan"
)

// A folder is a temporary folder for everything that a plan creates.
type folder struct {
	path    string
	qemuImg string            // path of the program, or ""
	places  map[string]string // replacements of files elsewhere, by path
}

// The subfolders.
const (
	dataFolder    = "data"
	runtimeFolder = "run"
	otherFolder   = "o"
)

func newFolder(qemuImg string) (folder, error) {
	path, err := os.MkdirTemp("", "vm") // short, because paths of sockets are limited
	if err != nil {
		return folder{}, fmt.Errorf("make a temporary folder: %w", err)
	}
	f := folder{path: path, qemuImg: qemuImg, places: map[string]string{}}
	for _, name := range []string{dataFolder, runtimeFolder, otherFolder, filepath.Join(dataFolder, plan.TPMFolder)} {
		if err := os.Mkdir(filepath.Join(path, name), 0o700); err != nil {
			return f, fmt.Errorf("make a temporary folder: %w", err)
		}
	}
	return f, nil
}

func (f folder) removeAll() error { return os.RemoveAll(f.path) }

func (f folder) dataDir() string    { return filepath.Join(f.path, dataFolder) }
func (f folder) runtimeDir() string { return filepath.Join(f.path, runtimeFolder) }

// substitutePath returns the path of the replacement for a file. Files in the folder keep their path.
func (f folder) substitutePath(path string) string {
	if path == "" || !filepath.IsAbs(path) || strings.HasPrefix(path, f.path+"/") {
		return path
	}
	if f.places[path] == "" {
		f.places[path] = filepath.Join(f.path, otherFolder, strconv.Itoa(len(f.places))+filepath.Ext(path))
	}
	return f.places[path]
}

// restoreNames replaces the names of files in the folder in a program's output with the names in the plan.
func (f folder) restoreNames(text, data, runtime string) string {
	names := []string{f.dataDir(), data, f.runtimeDir(), runtime}
	for name, place := range f.places {
		names = append(names, place, name)
	}
	return strings.NewReplacer(names...).Replace(text)
}

// socketPath returns a new path for a socket that QEMU listens on.
func (f folder) socketPath(name string) string {
	return f.substitutePath("/socket/" + name + strconv.Itoa(len(f.places)))
}

// emptyFolder creates and returns an empty folder that replaces the folder at path.
func (f folder) emptyFolder(path string) (string, error) {
	place := f.substitutePath(path)
	if err := os.MkdirAll(place, 0o700); err != nil {
		return "", fmt.Errorf("create a folder in place of %s: %w", path, err)
	}
	return place, nil
}

// blobFile returns a file that QEMU only reads: the file itself if it exists, otherwise a substitute.
func (f folder) blobFile(path, flag string) string {
	if !filepath.IsAbs(path) || isReadableFile(path) {
		return path
	}
	content := make([]byte, 512)
	switch flag {
	case "-bios":
		content = make([]byte, 64<<10)
	case "-kernel":
		content = make([]byte, 64<<10)
		// The boot sector of a bzImage (Linux, Documentation/arch/x86/boot.rst) without a kernel.
		copy(content[0x1fe:], "\x55\xaa")
		copy(content[0x202:], "HdrS\x0c\x02")  // protocol 2.12
		copy(content[0x211:], "\x01")          // loaded high
		copy(content[0x22c:], "\xff\xff\xff7") // highest address of an initrd
		copy(content[0x238:], "\xff\x07")      // longest command line
	}
	place := f.substitutePath(path)
	if err := os.WriteFile(place, content, 0o600); err != nil {
		return path // QEMU reports the missing file
	}
	return place
}

// scratchFile returns a file that QEMU may read and write, as a substitute for a file that it would write.
func (f folder) scratchFile(path string) (string, error) {
	place := f.substitutePath(path)
	if isReadableFile(place) {
		return place, nil
	}
	if err := os.WriteFile(place, make([]byte, 512), 0o600); err != nil {
		return "", fmt.Errorf("create a file in place of %s: %w", path, err)
	}
	return place, nil
}

// An image contains the requirements for the image of a block node.
type image struct {
	path, format string
	readOnly     bool
	size         int64 // 0 means any size
}

// usualSize is the default size of images, in bytes.
const usualSize = 1 << 20

// emptyImage returns an empty image, or the file itself if it exists and is only read. It keeps existing files in the
// folder, which were copied from a template.
func (f folder) emptyImage(i image) (string, error) {
	if i.readOnly && isReadableFile(i.path) {
		return i.path, nil
	}
	place := f.substitutePath(i.path)
	if !filepath.IsAbs(place) { // a URL, or a name in QEMU's folders
		place = f.substitutePath("/" + place)
	}
	if isReadableFile(place) {
		return place, nil
	}
	if i.size == 0 {
		i.size = usualSize
	}
	return place, f.makeImage(place, i)
}

func (f folder) makeImage(place string, i image) error {
	if i.format == "" || i.format == "raw" || i.format == "file" {
		file, err := os.OpenFile(place, os.O_WRONLY|os.O_CREATE, 0o600)
		if err == nil {
			err = file.Truncate(i.size)
			if closeErr := file.Close(); err == nil {
				err = closeErr
			}
		}
		if err != nil {
			return fmt.Errorf("create an image in place of %s: %w", i.path, err)
		}
		return nil
	}
	if f.qemuImg == "" {
		return needsError{What: "the program qemu-img, for an image of format " + i.format, Program: true}
	}
	out, err := exec.Command(f.qemuImg, "create", "-q", "-f", i.format, place,
		strconv.FormatInt(i.size, 10)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("create a %s image in place of %s: %w: %s", i.format, i.path, err, out)
	}
	return nil
}

// copyOnce copies a file of the data directory from its template, if the template exists.
func (f folder) copyOnce(from, to string) error {
	if !isReadableFile(from) {
		return nil // the user of the file creates an empty file
	}
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }() // it was only read
	target, err := os.OpenFile(f.substitutePath(to), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	if closeErr := target.Close(); err == nil {
		err = closeErr
	}
	return err
}
