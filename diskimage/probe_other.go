package diskimage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

const sectorSize = 512

// Offsets in the header of a sparse VMDK (VMware's "Virtual Disk Format"); all numbers are little-endian.
const (
	vmdkCapacityAt        = 12 // in sectors
	vmdkDescriptionAt     = 28
	vmdkDescriptionLenAt  = 36
	vmdkHeader            = 79
	vmdkDescriptionSector = 1  // where QEMU looks for a parent's name, regardless of the header
	vmdkDescriptionLen    = 20 // how much of it QEMU reads, in sectors
)

// probeVMDK refuses images that name files, because QEMU opens the extents in the description and the parent.
func probeVMDK(h []byte) (Info, error) {
	if len(h) < vmdkHeader {
		return Info{}, corruptImage(VMDK, "it ends after %d bytes", len(h))
	}
	le := binary.LittleEndian
	capacity := le.Uint64(h[vmdkCapacityAt:])
	if capacity == 0 { // QEMU would open the extents of the description
		return Info{}, Refuse(ImageHasExternalData, "the image contains no data, but names other files with the data")
	}
	if capacity > 1<<53 {
		return Info{}, corruptImage(VMDK, "%d sectors", capacity)
	}
	at, sectors := le.Uint64(h[vmdkDescriptionAt:]), le.Uint64(h[vmdkDescriptionLenAt:])
	if at == 0 || sectors == 0 {
		return Info{}, Refuse(UnsupportedFormat, "the image is a part of a VMware disk, without a description; "+
			"use monolithicSparse or streamOptimized")
	}
	if at > HeaderSize/sectorSize || sectors > HeaderSize/sectorSize || int(at+sectors)*sectorSize > len(h) {
		return Info{}, corruptImage(VMDK, "its description is not at its beginning")
	}
	texts := [][]byte{h[at*sectorSize : (at+sectors)*sectorSize]}
	if end := (vmdkDescriptionSector + vmdkDescriptionLen) * sectorSize; at != vmdkDescriptionSector ||
		sectors < vmdkDescriptionLen {
		texts = append(texts, h[min(len(h), vmdkDescriptionSector*sectorSize):min(len(h), end)])
	}
	for _, text := range texts {
		if err := vmdkNames(text); err != nil {
			return Info{}, err
		}
	}
	text, _, _ := bytes.Cut(texts[0], []byte{0})
	return Info{VMDK, int64(capacity) * sectorSize}, vmdkDescription(string(text))
}

// vmdkNames refuses a description that names a parent, at any place.
func vmdkNames(text []byte) error {
	lower := bytes.ToLower(text)
	switch {
	case bytes.Contains(lower, []byte("parentfilenamehint")):
		return Refuse(ImageHasBackingFile, "the image is a snapshot of another file; qemu-img convert merges both into one image")
	case bytes.Contains(lower, []byte("encryption.")), bytes.Contains(lower, []byte("keysafe")):
		return Refuse(ImageEncrypted, "the image is encrypted")
	}
	return nil
}

// vmdkDescription requires exactly one extent, inside the image.
func vmdkDescription(text string) error {
	extents := 0
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		key, value, isValue := strings.Cut(line, "=")
		fields := strings.Fields(line)
		switch {
		case isValue && strings.EqualFold(strings.TrimSpace(key), "createType"):
			kind := strings.Trim(strings.TrimSpace(value), `"`)
			if kind != "monolithicSparse" && kind != "streamOptimized" {
				return Refuse(ImageHasExternalData, "the image is of the type %q, which has its data in other files; "+
					"use monolithicSparse or streamOptimized", kind)
			}
		case isValue && strings.EqualFold(strings.TrimSpace(key), "parentCID"):
			if !strings.EqualFold(strings.TrimSpace(value), "ffffffff") {
				return Refuse(ImageHasBackingFile, "the image is a snapshot of another image")
			}
		case len(fields) >= 3 && isExtentAccess(fields[0]):
			if extents++; fields[2] != "SPARSE" || extents > 1 {
				return Refuse(ImageHasExternalData, "the image has the extent %q; use an image with a single extent of type SPARSE", line)
			}
		}
	}
	if extents == 0 {
		return corruptImage(VMDK, "its description has no extent")
	}
	return nil
}

func isExtentAccess(word string) bool { return word == "RW" || word == "RDONLY" || word == "NOACCESS" }

// Offsets in the header of VDI; all numbers are little-endian.
const (
	vdiSignatureAt = 0x40
	vdiTypeAt      = 0x4c
	vdiDataAt      = 0x158 // where the blocks begin
	vdiSizeAt      = 0x170
	vdiBlockSizeAt = 0x178
	vdiBlocksAt    = 0x184 // number of allocated blocks
	vdiParentAt    = 0x1a8 // two UUIDs: the link's and the parent's
	vdiHeader      = 0x1c8

	vdiDynamic = 1
	vdiStatic  = 2
)

func probeVDI(h []byte) (Info, error) {
	if len(h) < vdiHeader {
		return Info{}, corruptImage(VDI, "it ends after %d bytes", len(h))
	}
	le := binary.LittleEndian
	if kind := le.Uint32(h[vdiTypeAt:]); kind != vdiDynamic && kind != vdiStatic ||
		!bytes.Equal(h[vdiParentAt:vdiHeader], make([]byte, vdiHeader-vdiParentAt)) {
		return Info{}, Refuse(ImageHasBackingFile, "the image contains only the differences from another image; use a complete image")
	}
	return Info{VDI, int64(le.Uint64(h[vdiSizeAt:]))}, nil
}

// vdiIsWhole returns an error for a truncated image, which QEMU doesn't detect.
func vdiIsWhole(h []byte, file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return Refuse(SourceRefused, "%w", err)
	}
	le := binary.LittleEndian
	end := uint64(le.Uint32(h[vdiDataAt:])) + uint64(le.Uint32(h[vdiBlockSizeAt:]))*uint64(le.Uint32(h[vdiBlocksAt:]))
	if uint64(info.Size()) < end {
		return Refuse(ImageCorrupt, "the image has %d bytes, but its header states %d: it was cut off", info.Size(), end)
	}
	return nil
}

// Fields of the footer of a VHD, which is also at its beginning unless the VHD is fixed. All numbers are big-endian
// (Microsoft's "Virtual Hard Disk Image Format").
const (
	vhdCookie     = "conectix"
	vhdFooter     = 512
	vhdSizeAt     = 48
	vhdTypeAt     = 60
	vhdChecksumAt = 64

	vhdFixed   = 2
	vhdDynamic = 3
)

func probeVHD(h []byte) (Info, error) {
	if len(h) < vhdFooter {
		return Info{}, corruptImage(VPC, "it ends after %d bytes", len(h))
	}
	if kind := binary.BigEndian.Uint32(h[vhdTypeAt:]); kind != vhdDynamic {
		return Info{}, Refuse(ImageHasBackingFile, "the image is a VHD of the type %d; use a complete image, fixed or dynamic", kind)
	}
	return Info{VPC, int64(binary.BigEndian.Uint64(h[vhdSizeAt:]))}, nil
}

// isVHDFooter reports whether the last bytes of an image are the footer of a fixed VHD. disk is the number of bytes
// before them. The checksum keeps a raw disk from being mistaken for a VHD.
func isVHDFooter(footer []byte, disk int64) bool {
	if len(footer) != vhdFooter || !bytes.HasPrefix(footer, []byte(vhdCookie)) {
		return false
	}
	var sum uint32
	for i, b := range footer {
		if i < vhdChecksumAt || i >= vhdChecksumAt+4 {
			sum += uint32(b)
		}
	}
	be := binary.BigEndian
	return be.Uint32(footer[vhdChecksumAt:]) == ^sum && be.Uint32(footer[vhdTypeAt:]) == vhdFixed &&
		be.Uint64(footer[vhdSizeAt:]) == uint64(disk)
}

// Offsets, flags and identifiers of VHDX (Microsoft's MS-VHDX); all numbers are little-endian.
const (
	vhdxRegionsAt    = 192 << 10
	vhdxTable        = 64 << 10
	vhdxEntry        = 32
	vhdxMostEntries  = 2047
	vhdxHasParent    = 1 << 1
	vhdxMetadata     = "\x06\xa2\x7c\x8b\x90\x47\x9a\x4b\xb8\xfe\x57\x5f\x05\x0f\x88\x6e"
	vhdxFileSettings = "\x37\x67\xa1\xca\x36\xfa\x43\x4d\xb3\xb6\x33\xf0\xaa\x44\xe7\x6b"
	vhdxDiskSize     = "\x24\x42\xa5\x2f\x1b\xcd\x76\x48\xb2\x11\x5d\xbe\xd8\x3b\xf4\xb8"
)

// probeVHDX returns only the format, because the size is far from the beginning.
func probeVHDX([]byte) (Info, error) { return Info{Format: VHDX}, nil }

// vhdxSize returns the size of the disk in a complete VHDX image.
func vhdxSize(r io.ReaderAt) (int64, error) {
	regions, err := readTable(r, vhdxRegionsAt, "regi", 8, 4)
	if err != nil {
		return 0, corruptImage(VHDX, "regions: %w", err)
	}
	for _, region := range regions {
		if string(region[:16]) != vhdxMetadata {
			continue
		}
		at := int64(binary.LittleEndian.Uint64(region[16:]))
		items, err := readTable(r, at, "metadata", 10, 2)
		if err != nil {
			return 0, corruptImage(VHDX, "metadata: %w", err)
		}
		return vhdxItems(r, at, items)
	}
	return 0, corruptImage(VHDX, "it has no metadata")
}

func vhdxItems(r io.ReaderAt, at int64, items [][]byte) (size int64, err error) {
	for _, item := range items {
		value := make([]byte, 8)
		id := string(item[:16])
		if id != vhdxFileSettings && id != vhdxDiskSize {
			continue
		}
		if _, err := r.ReadAt(value, at+int64(binary.LittleEndian.Uint32(item[16:]))); err != nil {
			return 0, corruptImage(VHDX, "metadata: %w", err)
		}
		if id == vhdxDiskSize {
			size = int64(binary.LittleEndian.Uint64(value))
		} else if binary.LittleEndian.Uint32(value[4:])&vhdxHasParent != 0 {
			return 0, Refuse(ImageHasBackingFile, "the image contains only the differences from another image; use a complete image")
		}
	}
	if size <= 0 {
		return 0, corruptImage(VHDX, "a disk of %d bytes", size)
	}
	return size, nil
}

// readTable reads a table of VHDX and returns its entries.
func readTable(r io.ReaderAt, at int64, signature string, countAt, countLen int) (entries [][]byte, err error) {
	table := make([]byte, vhdxTable)
	if at < 0 {
		return nil, errors.New("at " + strconv.FormatInt(at, 10))
	}
	n, err := r.ReadAt(table, at)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	table = table[:n]
	first := 16
	if countLen == 2 {
		first = vhdxEntry
	}
	if len(table) < first || !bytes.HasPrefix(table, []byte(signature)) {
		return nil, fmt.Errorf("there are none at %d", at)
	}
	count := int(binary.LittleEndian.Uint16(table[countAt:]))
	if count > vhdxMostEntries || first+count*vhdxEntry > len(table) {
		return nil, fmt.Errorf("%d entries", count)
	}
	for i := range count {
		entries = append(entries, table[first+i*vhdxEntry:first+(i+1)*vhdxEntry])
	}
	return entries, nil
}
