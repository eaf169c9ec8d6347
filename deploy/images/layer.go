package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// merged lists the folders that are links into usr since Debian 12. Packages still use the old paths.
var merged = []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// left lists the folders of packages that an image doesn't need. The licenses in usr/share/doc stay.
var left = []string{
	"usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian", "usr/share/bug",
	"usr/share/bash-completion", "usr/share/xml/iso-codes", "usr/share/iso-codes",
}

// layer writes the tar file of a layer. All entries belong to root and have the same time, without setuid and setgid
// bits. Parent folders are added automatically.
type layer struct {
	file *os.File
	zip  *gzip.Writer
	tar  *tar.Writer
	time time.Time
	made map[string]bool   // folders
	cert map[string][]byte // certificates of authorities, by path
}

// newLayer creates a layer at a path that ends with .gz.
func newLayer(path string, created time.Time) (*layer, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("write a layer: %w", err)
	}
	zip := gzip.NewWriter(f)
	return &layer{
		file: f, zip: zip, tar: tar.NewWriter(zip), time: created, made: map[string]bool{".": true},
		cert: map[string][]byte{},
	}, nil
}

// closeLayer completes the file.
func (l *layer) closeLayer() error {
	if err := errors.Join(l.tar.Close(), l.zip.Close(), l.file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", l.file.Name(), err)
	}
	return nil
}

// mergeIntoUsr adds the links into usr.
func (l *layer) mergeIntoUsr() error {
	for _, name := range merged {
		if err := errors.Join(l.addFolder("usr/"+name), l.addEntry(tar.Header{
			Typeflag: tar.TypeSymlink, Name: name,
			Linkname: "usr/" + name, Mode: 0o777,
		}, nil)); err != nil {
			return err
		}
	}
	return nil
}

// addEntry writes an entry and its parent folders.
func (l *layer) addEntry(h tar.Header, content io.Reader) error {
	if err := l.addFolder(path.Dir(path.Clean(h.Name))); err != nil {
		return err
	}
	err := l.tar.WriteHeader(&tar.Header{
		Typeflag: h.Typeflag, Name: h.Name, Linkname: h.Linkname, Size: h.Size,
		Mode: h.Mode & 0o1777, ModTime: l.time, // without setuid and setgid
	})
	if err == nil && h.Typeflag == tar.TypeReg {
		_, err = io.Copy(l.tar, content)
	}
	if err != nil {
		return fmt.Errorf("write %s to %s: %w", h.Name, l.file.Name(), err)
	}
	return nil
}

func (l *layer) addFolder(name string) error {
	if l.made[name] {
		return nil
	}
	l.made[name] = true
	return l.addEntry(tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755}, nil)
}

// addText writes a file that everybody may read.
func (l *layer) addText(name string, content []byte) error {
	return l.addEntry(tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o644},
		bytes.NewReader(content))
}

// addHostFile writes a file of this machine.
func (l *layer) addHostFile(name, from string, mode int64) error {
	f, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	defer func() { _ = f.Close() }() // opened for reading only
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return l.addEntry(tar.Header{Typeflag: tar.TypeReg, Name: name, Size: info.Size(), Mode: mode}, f)
}

// unpackPackage adds the files of a package for which want is true.
func (l *layer) unpackPackage(archive io.Reader, want func(name string) bool) error {
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		h.Name = usrPath(h.Name)
		if !want(h.Name) {
			continue
		}
		switch h.Typeflag {
		case tar.TypeDir:
			if l.made[h.Name] {
				continue
			}
			l.made[h.Name] = true
			h.Name += "/"
		case tar.TypeLink:
			h.Linkname = usrPath(h.Linkname)
		case tar.TypeReg, tar.TypeSymlink:
		default:
			return fmt.Errorf("%s is neither a file nor a folder nor a link", h.Name)
		}
		var kept bytes.Buffer
		var content io.Reader = r
		if strings.HasPrefix(h.Name, authorities) {
			content = io.TeeReader(r, &kept)
		}
		if err := l.addEntry(*h, content); err != nil {
			return err
		}
		if kept.Len() > 0 {
			l.cert[h.Name] = kept.Bytes()
		}
	}
}

// authorities is the folder of the certificates in the package ca-certificates.
const authorities = "usr/share/ca-certificates/"

// bundleCertificates writes the certificates into one file, as update-ca-certificates(8) does.
func (l *layer) bundleCertificates() error {
	var names []string
	for name := range l.cert {
		names = append(names, name)
	}
	slices.Sort(names)
	var all bytes.Buffer
	for _, name := range names {
		all.Write(bytes.TrimSpace(l.cert[name]))
		all.WriteByte('\n')
	}
	return l.addText("etc/ssl/certs/ca-certificates.crt", all.Bytes())
}

// usrPath returns the merged path for a package's path, without a leading slash.
func usrPath(name string) string {
	name = path.Join("/", name)[1:]
	if first, _, _ := strings.Cut(name, "/"); slices.Contains(merged, first) {
		return "usr/" + name
	}
	if name == "" {
		return "."
	}
	return name
}

// isNeeded reports whether an image needs the file. It excludes files that only serve people at a terminal.
func isNeeded(name string) bool {
	for _, dir := range left {
		if name == dir || strings.HasPrefix(name, dir+"/") {
			return false
		}
	}
	dir, inside := strings.CutPrefix(name, "usr/share/doc/")
	_, file, deep := strings.Cut(dir, "/")
	return !inside || !deep || file == "copyright"
}
