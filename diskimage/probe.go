package diskimage

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// Format is the format of an image.
type Format string

// Formats that can be imported.
const (
	Raw   Format = "raw"
	ISO   Format = "iso" // raw, with a CD file system
	QCOW2 Format = "qcow2"
	VMDK  Format = "vmdk" // monolithicSparse, streamOptimized
	VHDX  Format = "vhdx"
	VDI   Format = "vdi"
	VPC   Format = "vpc" // VHD
)

// Plain reports whether the image's bytes are the disk's bytes.
func (f Format) Plain() bool { return f == Raw || f == ISO }

// HeaderSize is the number of bytes at the beginning of an image that identify its format.
const HeaderSize = 64 << 10

// Info is the information in an image's header.
type Info struct {
	Format Format
	// VirtualSize is the size of the disk in bytes; 0 if the header lacks it.
	VirtualSize int64
}

// A magic is the text at a fixed offset in images of a format.
type magic struct {
	at   int
	text string
	// read reads the header; if it is nil, the format can't be imported.
	read func(header []byte) (Info, error)
	what string
}

func allMagics() []magic { return append(containerMagics(), guestMagics()...) }

// containerMagics returns the formats with other bytes than the disk's.
func containerMagics() []magic {
	return []magic{
		{0, "QFI\xfb", probeQcow2, "qcow2"},
		{0, "KDMV", probeVMDK, "vmdk"},
		{0, "vhdxfile", probeVHDX, "vhdx"},
		{vdiSignatureAt, "\x7f\x10\xda\xbe", probeVDI, "vdi"},
		{0, vhdCookie, probeVHD, "vpc"},
		{0, "# Disk DescriptorFile", nil, "the description of a VMware disk with data in other files"},
		{0, "COWD", nil, "VMware's COWD"},
		{0, "QED\x00", nil, "QED"},
		{0, "WithoutFreeSpace", nil, "Parallels"},
		{0, "WithouFreSpacExt", nil, "Parallels"},
		{0, "Bochs Virtual HD Image", nil, "Bochs"},
		{0, "#!/bin/sh\n#V2.0 Format", nil, "cloop"},
	}
}

// guestMagics returns the formats that a raw disk may also begin with, because its guest has written it.
func guestMagics() []magic {
	return []magic{
		{isoAt, "CD001", func([]byte) (Info, error) { return Info{Format: ISO}, nil }, "iso"},
		{0, "LUKS\xba\xbe", nil, "LUKS, which is encrypted"},
		{0, "PK\x03\x04", nil, "a zip archive"},
		{0, "BZh", nil, "bzip2"},
		{0, "7z\xbc\xaf\x27\x1c", nil, "a 7z archive"},
		{0, "Rar!\x1a\x07", nil, "a rar archive"},
		{0, gzipMagic, nil, "compressed twice"},
		{0, xzMagic, nil, "compressed twice"},
		{0, zstdMagic, nil, "compressed twice"},
		{tarMagicAt, "ustar", nil, "a tar archive (as an OVA file is)"},
	}
}

// findMagic returns the matching magic, or nil if the list lacks the image's format.
func findMagic(list []magic, header []byte) *magic {
	for i := range list {
		if m := &list[i]; len(header) >= m.at+len(m.text) && string(header[m.at:m.at+len(m.text)]) == m.text {
			return m
		}
	}
	return nil
}

const (
	isoAt      = 0x8001
	tarMagicAt = 257
)

// Probe identifies an image by its first HeaderSize bytes, or by the whole image if it is smaller. It refuses images
// that can name other files, because QEMU would open those files with the rights of the import. It also refuses
// known formats that it can't import, and HTML pages. An unknown beginning counts as raw, because raw disks have no
// header.
//
// See docs/decisions/0104-hostile-images.md.
func Probe(header []byte) (Info, error) {
	if len(header) == 0 {
		return Info{}, Refuse(ImageEmpty, "the image is empty")
	}
	if m := findMagic(allMagics(), header); m != nil {
		if m.read == nil {
			reason := UnsupportedFormat
			if strings.HasPrefix(m.text, "LUKS") {
				reason = ImageEncrypted
			} else if strings.HasPrefix(m.text, "# Disk") {
				reason = ImageHasExternalData
			}
			return Info{}, Refuse(reason, "the image is %s; convert it to raw, iso, qcow2, vmdk, vhdx, vdi or vpc", m.what)
		}
		info, err := m.read(header)
		if err == nil && !info.Format.Plain() && info.Format != VHDX && info.VirtualSize <= 0 {
			err = corruptImage(info.Format, "a disk of %d bytes", info.VirtualSize)
		}
		return info, err
	}
	start := strings.ToLower(string(bytes.TrimSpace(header[:min(len(header), 512)])))
	if strings.HasPrefix(start, "<!doctype html") || strings.HasPrefix(start, "<html") {
		return Info{}, Refuse(UnsupportedFormat, "the image is a page of HTML; the URL leads to a page about it, or to a log-in")
	}
	return Info{Format: Raw}, nil
}

func corruptImage(f Format, format string, args ...any) error {
	return Refuse(ImageCorrupt, "the header of the "+string(f)+" image is wrong: "+format, args...)
}

// Offsets and flags in the header of qcow2 (QEMU's docs/interop/qcow2.txt); all numbers are big-endian.
const (
	qcow2VersionAt     = 4
	qcow2BackingAt     = 8
	qcow2ClusterBitsAt = 20
	qcow2SizeAt        = 24
	qcow2CryptAt       = 32
	qcow2IncompatAt    = 72
	qcow2LengthAt      = 100
	qcow2HeaderV2      = 72
	qcow2HeaderV3      = 104

	qcow2Dirty       = 1 << 0
	qcow2Corrupt     = 1 << 1
	qcow2DataFile    = 1 << 2
	qcow2Compression = 1 << 3
	qcow2ExtendedL2  = 1 << 4

	qcow2ExtDataFile = 0x44415441
	qcow2ExtCrypto   = 0x0537be77
)

func probeQcow2(h []byte) (Info, error) {
	if len(h) < qcow2HeaderV2 {
		return Info{}, corruptImage(QCOW2, "it ends after %d bytes", len(h))
	}
	be := binary.BigEndian
	version, extensions := be.Uint32(h[qcow2VersionAt:]), qcow2HeaderV2
	switch {
	case version == 1:
		return Info{}, Refuse(UnsupportedFormat, "the image is qcow, the format before qcow2; qemu-img converts it")
	case version != 2 && version != 3:
		return Info{}, Refuse(UnsupportedFormat, "the image is qcow2 of version %d; use version 2 or 3", version)
	case be.Uint64(h[qcow2BackingAt:]) != 0:
		return Info{}, Refuse(ImageHasBackingFile,
			"the image is an overlay of another file; qemu-img convert merges both into one image")
	case be.Uint32(h[qcow2CryptAt:]) != 0:
		return Info{}, Refuse(ImageEncrypted, "the image is encrypted; qemu-img convert with its key makes one that isn't")
	}
	if version == 3 {
		if len(h) < qcow2HeaderV3 {
			return Info{}, corruptImage(QCOW2, "it ends after %d bytes", len(h))
		}
		if err := qcow2Features(be.Uint64(h[qcow2IncompatAt:])); err != nil {
			return Info{}, err
		}
		extensions = int(be.Uint32(h[qcow2LengthAt:]))
	}
	bits := be.Uint32(h[qcow2ClusterBitsAt:])
	if bits < 9 || bits > 21 {
		return Info{}, corruptImage(QCOW2, "clusters of 2^%d bytes", bits)
	}
	if err := qcow2Extensions(h[:min(len(h), 1<<bits)], extensions); err != nil {
		return Info{}, err
	}
	return Info{QCOW2, int64(be.Uint64(h[qcow2SizeAt:]))}, nil
}

func qcow2Features(incompatible uint64) error {
	const known = qcow2Dirty | qcow2Compression | qcow2ExtendedL2
	switch {
	case incompatible&qcow2DataFile != 0:
		return Refuse(ImageHasExternalData, "the image has its data in another file; qemu-img convert merges both into one image")
	case incompatible&qcow2Corrupt != 0:
		return Refuse(ImageCorrupt, "the image is marked as corrupt; qemu-img check -r repairs what can be repaired")
	case incompatible&^known != 0:
		return Refuse(UnsupportedFormat, "the image has unknown features (%#x)", incompatible&^known)
	}
	return nil
}

// qcow2Extensions checks the header extensions. They begin at an offset, and end with the first cluster or with an
// extension of the type 0.
func qcow2Extensions(cluster []byte, at int) error {
	for at >= 0 && at+8 <= len(cluster) {
		kind, length := binary.BigEndian.Uint32(cluster[at:]), int(binary.BigEndian.Uint32(cluster[at+4:]))
		switch kind {
		case 0:
			return nil
		case qcow2ExtDataFile:
			return Refuse(ImageHasExternalData, "the image names another file for its data")
		case qcow2ExtCrypto:
			return Refuse(ImageEncrypted, "the image is encrypted")
		}
		at += 8 + (length+7)&^7
	}
	if len(cluster) == HeaderSize && at > len(cluster) {
		return corruptImage(QCOW2, "its extensions don't end within %d bytes", HeaderSize)
	}
	return nil
}
