package vmspec

import (
	"path/filepath"
	"strings"
)

// Within returns a copy with relative paths joined to a folder. URLs stay unchanged.
//
// See docs/decisions/0009-relative-paths.md.
func (s Spec) Within(folder string) Spec {
	s = s.cloneSpec()
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

// Within joins a relative path to a folder. Absolute paths, URLs, and "" stay unchanged.
func Within(folder, path string) string {
	if path == "" || filepath.IsAbs(path) || strings.Contains(path, "://") {
		return path
	}
	return filepath.Join(folder, path)
}

// InitrdFault returns the reason why QEMU would not accept a path as a single initial RAM disk, or "". With a
// multiboot kernel, which a guest can write to its own disk, QEMU reads each file of a list
// (hw/i386/multiboot.c).
func InitrdFault(path string) string {
	if strings.Contains(path, ",") {
		return "has a comma, which QEMU uses to separate files"
	}
	return ""
}

// Inside returns the absolute path of a file, and whether its name is in a folder; the folder itself is not.
// Relative paths begin at the folder.
func Inside(folder, path string) (string, bool) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	path = filepath.Clean(path)
	return path, strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
}
