package prepare

import (
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// directAlignment is the size of which requests to storage without the page cache are multiples, on all common
// storage. QEMU refuses to write to a raw image that isn't a multiple of its storage's own size.
const directAlignment = 4096

// hasDirectIO reports whether an image of a format can be used without the page cache, or nil if it is unknown.
func (f *HostFacts) hasDirectIO(path, format string) *bool {
	key := format + ":" + path
	known, ok := f.DirectIO[key]
	if !ok {
		if f.DirectIO == nil {
			f.DirectIO = map[string]*bool{}
		}
		known = opensDirectly(path, format)
		f.DirectIO[key] = known
	}
	return known
}

// opensDirectly reports whether an image can be opened with O_DIRECT. For a missing image it tries a nameless file in
// the image's folder. It returns nil if another error prevents the test.
func opensDirectly(path, format string) *bool {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return canOpen(filepath.Dir(path), unix.O_TMPFILE|unix.O_RDWR|unix.O_DIRECT)
	case err != nil || !info.Mode().IsRegular():
		return nil
	case format == "raw" && info.Size()%directAlignment != 0:
		return new(false)
	}
	return canOpen(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_DIRECT)
}

// canOpen reports whether a file can be opened with flags that its file system may lack; nil for other errors.
func canOpen(path string, flags int) *bool {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
	if err != nil {
		if errors.Is(err, unix.EINVAL) {
			return new(false)
		}
		return nil
	}
	_ = unix.Close(fd) // it has served its purpose
	return new(true)
}

// aioInterfaces returns the interfaces for asynchronous requests that both a program of QEMU and the kernel have. It
// returns nil if the program does not show them.
func (f *HostFacts) aioInterfaces(program string) []string {
	if known, ok := f.AIO[program]; ok {
		return known
	}
	if f.AIO == nil {
		f.AIO = map[string][]string{}
	}
	f.AIO[program] = interfacesOf(program)
	return f.AIO[program]
}

// interfacesOf returns the interfaces of a program that is linked with the libraries for them.
func interfacesOf(program string) (names []string) {
	file, err := elf.Open(program)
	if err != nil {
		return nil // a script, or missing
	}
	defer func() { _ = file.Close() }()
	libraries, err := file.ImportedLibraries()
	if err != nil || len(libraries) == 0 {
		return nil // linked statically
	}
	has := func(library string) bool {
		return slices.ContainsFunc(libraries, func(name string) bool { return strings.HasPrefix(name, library+".so") })
	}
	names = []string{"threads"}
	if has("libaio") {
		names = append(names, "native")
	}
	if has("liburing") && kernelHasRing() {
		names = append(names, "io_uring")
	}
	return names
}

// kernelHasRing reports whether this process may create a ring of io_uring with as many entries as QEMU does. An
// administrator or a container runtime can forbid it.
func kernelHasRing() bool {
	const entries = 128      // MAX_ENTRIES of QEMU
	var parameters [120]byte // struct io_uring_params
	fd, _, failure := unix.Syscall(unix.SYS_IO_URING_SETUP, entries, uintptr(unsafe.Pointer(&parameters)), 0)
	if failure != 0 {
		return false
	}
	return unix.Close(int(fd)) == nil
}
