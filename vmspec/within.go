package vmspec

import (
	"path/filepath"
	"strings"
)

// Within returns a copy in which relative paths begin at a folder. URLs stay.
//
// See docs/decisions/0009-relative-paths.md.
func (s Spec) Within(folder string) Spec {
	s = s.clone()
	join := func(paths ...*string) {
		for _, path := range paths {
			*path = Within(folder, *path)
		}
	}
	for i := range s.Drives {
		d := &s.Drives[i]
		join(&d.File, &d.Device, &d.Resource)
		if d.NBD != nil {
			join(&d.NBD.TLS)
		}
		if SourceKindOf(d.Source) == SourceFile {
			join(&d.Source)
		}
	}
	if s.Kernel != nil {
		join(&s.Kernel.Image, &s.Kernel.Initrd)
	}
	if s.SerialConsole != nil {
		join(&s.SerialConsole.Log)
	}
	return s
}

// Within returns a path that begins at a folder if it is relative. A URL, and "",
// stay.
func Within(folder, path string) string {
	if path == "" || filepath.IsAbs(path) || strings.Contains(path, "://") {
		return path
	}
	return filepath.Join(folder, path)
}

// InitrdFault returns why QEMU would not take a path for one initial RAM disk; "" if it would. With a multiboot kernel,
// which a guest can write to its own disk, QEMU reads each file of a list (hw/i386/multiboot.c).
func InitrdFault(path string) string {
	if strings.Contains(path, ",") {
		return "has a comma, with which QEMU separates several files"
	}
	return ""
}

// Inside returns the path of a file that is to be in a folder, where relative paths
// begin, and whether it is, by its name; the folder itself is not.
func Inside(folder, path string) (string, bool) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	path = filepath.Clean(path)
	return path, strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
}
