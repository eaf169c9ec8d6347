package disk

import (
	"encoding/binary"
	"fmt"
	"os"

	"github.com/diskfs/go-diskfs/filesystem"
	"github.com/diskfs/go-diskfs/filesystem/fat12"
	"github.com/diskfs/go-diskfs/filesystem/fat16"

	"vmop/cloudinit"
)

// This file creates FAT images with go-diskfs 1.9.4 and works around its bugs. Without that, fsck.vfat would
// report errors in every image:
//
//   - A new FAT12 or FAT16 marks its first data cluster, number 2, as used, although no file uses it.
//     freeFirstCluster frees it, and the file system is then read again.
//   - An empty file occupies a cluster. So Seed.Files never returns empty files.
//   - The table has room for more clusters than the disk has, and the library allocates them. So the size is
//     computed for the files in advance, and memory rejects writes beyond its end.
//   - The time of every entry is the current time, or comes from an environment variable of the whole process.
//     setTimes replaces it.
//   - FAT32 has more bugs of this kind. FAT12 and FAT16 are sufficient here.

const (
	sector = 512

	// A FAT12 has the size and geometry of a 1.44 MB floppy disk: 2880 sectors, minus the boot sector, two tables
	// of 9 sectors and a root directory of 14 sectors.
	floppySize     = 2880 * sector
	floppyClusters = 2847

	// A FAT16 has at least 4085 clusters by definition. Its boot sector, reserved sectors and root directory are
	// 36 sectors.
	minFAT16Clusters = 4085
	fat16Overhead    = 36
)

// volume contains the common methods of FAT12 and FAT16.
type volume interface {
	OpenFile(name string, flag int) (filesystem.File, error)
}

// format is a kind of FAT: the functions that create and read it, and the function that frees cluster 2 in its
// table.
type format struct {
	create      func(m *memory) error
	read        func(m *memory) (volume, error)
	freeCluster func(table []byte)
}

func buildFAT(label string, files []cloudinit.File) (*memory, error) {
	size, f := floppySize, fat12Format(label)
	if countClusters(files, sector) > floppyClusters {
		size, f = fat16Size(files), fat16Format(label)
	}
	m := &memory{size: size}
	if err := f.create(m); err != nil {
		return nil, fmt.Errorf("format a file system of %d bytes: %w", size, err)
	}
	freeFirstCluster(m.data, f.freeCluster)
	v, err := f.read(m)
	if err != nil {
		return nil, fmt.Errorf("open the new file system: %w", err)
	}
	for _, f := range files {
		if err := writeFile(v, f); err != nil {
			return nil, fmt.Errorf("write %s: %w", f.Name, err)
		}
	}
	setTimes(m.data)
	return m, nil
}

// writeFile writes the content in a single call, because each call rewrites the tables.
func writeFile(v volume, f cloudinit.File) error {
	out, err := v.OpenFile(f.Name, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return err
	}
	if _, err := out.Write(f.Content); err != nil {
		return err
	}
	return out.Close()
}

func fat12Format(label string) format {
	return format{
		create: func(m *memory) error {
			_, err := fat12.Create(m, int64(m.size), 0, sector, label, true)
			return err
		},
		read: func(m *memory) (volume, error) { return fat12.Read(m, int64(m.size), 0, sector) },
		freeCluster: func(table []byte) { // 12 bits per entry; the third entry is byte 3 and half of byte 4
			table[3] = 0
			table[4] &= 0xf0
		},
	}
}

func fat16Format(label string) format {
	return format{
		create: func(m *memory) error {
			_, err := fat16.Create(m, int64(m.size), 0, sector, label, true)
			return err
		},
		read:        func(m *memory) (volume, error) { return fat16.Read(m, int64(m.size), 0, sector) },
		freeCluster: func(table []byte) { table[4], table[5] = 0, 0 },
	}
}

// fat16Size returns the size in bytes of a FAT16 with enough space for the files. It follows the library's choice
// of cluster sizes: two sectors up to 32 MiB, and above that four sectors (up to 128 MiB, more than
// cloudinit.MaxData needs).
func fat16Size(files []cloudinit.File) int {
	const smallClusters = 32 << 20
	if size := fat16SizeFor(files, 2); size <= smallClusters {
		return size
	}
	return max(fat16SizeFor(files, 4), smallClusters+fat16Granularity)
}

// fat16Granularity is the granularity of sizes, in bytes. Rounding up also compensates for the rounded size of
// the table.
const fat16Granularity = 64 << 10

func fat16SizeFor(files []cloudinit.File, sectorsPerCluster int) int {
	n := max(countClusters(files, sectorsPerCluster*sector), minFAT16Clusters)
	table := n/254 + 2 // a sector has 256 entries; the library's table also covers its own sectors
	size := (fat16Overhead + 2*table + n*sectorsPerCluster) * sector
	return (size + fat16Granularity - 1) / fat16Granularity * fat16Granularity
}

// countClusters returns the number of clusters of the given size that the files need.
func countClusters(files []cloudinit.File, size int) int {
	n := 0
	for _, f := range files {
		n += (len(f.Content) + size - 1) / size
	}
	return n
}

// layout contains the offsets of an image's parts, in bytes, according to its boot sector.
type layout struct {
	tables  [2]int
	root    int
	rootEnd int
}

func layoutOf(image []byte) layout {
	reserved := int(binary.LittleEndian.Uint16(image[14:]))
	rootEntries := int(binary.LittleEndian.Uint16(image[17:]))
	table := int(binary.LittleEndian.Uint16(image[22:]))
	root := (reserved + 2*table) * sector
	return layout{
		tables:  [2]int{reserved * sector, (reserved + table) * sector},
		root:    root,
		rootEnd: root + rootEntries*entrySize,
	}
}

// freeFirstCluster marks cluster 2 as free in both copies of the table.
func freeFirstCluster(image []byte, free func(table []byte)) {
	for _, table := range layoutOf(image).tables {
		free(image[table:])
	}
}

const (
	entrySize    = 32   // bytes of a directory entry
	longNamePart = 0x0f // attributes of an entry with a part of a long name, which has no times
	firstOfDates = 1<<5 | 1
)

// setTimes sets the times of all entries in the root directory to the first time in FAT, 1980-01-01 00:00.
func setTimes(image []byte) {
	l := layoutOf(image)
	for at := l.root; at < l.rootEnd && image[at] != 0; at += entrySize {
		entry := image[at : at+entrySize]
		if entry[11] == longNamePart {
			continue
		}
		clear(entry[13:16])                                     // created: hundredths, time
		binary.LittleEndian.PutUint16(entry[16:], firstOfDates) // created: date
		binary.LittleEndian.PutUint16(entry[18:], firstOfDates) // read: date
		clear(entry[22:24])                                     // written: time
		binary.LittleEndian.PutUint16(entry[24:], firstOfDates) // written: date
	}
}
