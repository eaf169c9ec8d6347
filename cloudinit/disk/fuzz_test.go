package disk

import (
	"bytes"
	"encoding/binary"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"vmop/cloudinit"
)

// FuzzImage creates images with any content and reads them back with a reader that shares no code with the writer. It
// repeats content to reach the larger formats. Without -fuzz, fsck.vfat checks each image as well.
func FuzzImage(f *testing.F) {
	f.Add([]byte("instance-id: i-1\n"), []byte("#cloud-config\n{}\n"), []byte("version: 2\n"), []byte("#!/bin/sh\n"),
		uint16(1))
	f.Add([]byte{}, []byte{}, []byte{}, []byte{}, uint16(0))
	f.Add([]byte{0}, []byte{0xff}, []byte{0xe5}, []byte("\x00\x00"), uint16(513))
	f.Add([]byte("a"), bytes.Repeat([]byte{7}, 999), []byte("b"), bytes.Repeat([]byte{8}, 515), uint16(2000))
	fuzzing := flag.Lookup("test.fuzz").Value.String() != ""
	f.Fuzz(func(t *testing.T, meta, user, network, vendor []byte, times uint16) {
		repeat := min(int(times), 2<<20/(len(user)+len(vendor)+1))
		seed := cloudinit.Seed{
			MetaData: meta, UserData: bytes.Repeat(user, repeat), NetworkConfig: network,
			VendorData: bytes.Repeat(vendor, repeat),
		}
		image, err := Image(seed)
		require.NoError(t, err)
		got := readFAT(t, image)
		require.Len(t, got, len(seed.Files())+1)
		require.Contains(t, got, "CIDATA")
		for _, f := range seed.Files() {
			require.True(t, bytes.Equal(f.Content, got[f.Name]), f.Name)
		}
		again, err := Image(seed)
		require.NoError(t, err)
		require.True(t, bytes.Equal(image, again))
		if !fuzzing {
			path := filepath.Join(t.TempDir(), "seed.img")
			require.NoError(t, os.WriteFile(path, image, 0o600))
			requireSound(t, path, "fuzzed")
		}
	})
}

// readFAT reads the root directory of a FAT12 or FAT16 according to Microsoft's FAT specification of 2000-12-06. It
// checks that both tables are equal and that every used cluster has exactly one owner. The label appears as an empty
// file.
func readFAT(t *testing.T, image []byte) map[string][]byte {
	t.Helper()
	le := binary.LittleEndian
	sectorSize, perCluster := int(le.Uint16(image[11:])), int(image[13])
	reserved, entries, table := int(le.Uint16(image[14:])), int(le.Uint16(image[17:])), int(le.Uint16(image[22:]))
	sectors := int(le.Uint16(image[19:]))
	if sectors == 0 {
		sectors = int(le.Uint32(image[32:]))
	}
	require.Equal(t, len(image), sectors*sectorSize)
	first := image[reserved*sectorSize:][:table*sectorSize]
	require.True(t, bytes.Equal(first, image[(reserved+table)*sectorSize:][:len(first)]), "the tables differ")
	root := (reserved + 2*table) * sectorSize
	data := root + entries*32
	clusterSize := perCluster * sectorSize
	count := (len(image) - data) / clusterSize
	next := func(n int) int {
		if count >= 4085 {
			return int(le.Uint16(first[2*n:]))
		}
		word := int(le.Uint16(first[n*3/2:]))
		return []int{word & 0xfff, word >> 4}[n&1]
	}
	end := map[bool]int{false: 0xff8, true: 0xfff8}[count >= 4085]

	files, owned, longName := map[string][]byte{}, make([]bool, count+2), ""
	for at := root; at < data && image[at] != 0; at += 32 {
		entry := image[at : at+32]
		if entry[11] == 0x0f {
			longName = namePart(entry) + longName
			continue
		}
		name := longName
		if name == "" {
			name = strings.TrimRight(string(entry[:11]), " ")
		}
		longName = ""
		content := []byte{}
		for n := int(le.Uint16(entry[26:])); n != 0 && n < end; n = next(n) {
			if n < 2 || n >= count+2 || owned[n] {
				require.FailNow(t, "cluster out of range or with two owners", "%d of %d", n, count)
			}
			owned[n] = true
			content = append(content, image[data+(n-2)*clusterSize:][:clusterSize]...)
		}
		size := int(le.Uint32(entry[28:]))
		require.Equal(t, (size+clusterSize-1)/clusterSize, len(content)/clusterSize, name)
		files[name] = content[:size]
	}
	for n := 2; n < count+2; n++ {
		if owned[n] != (next(n) != 0) {
			require.FailNow(t, "cluster without an owner", "%d", n)
		}
	}
	return files
}

// namePart returns the characters of a long name, at most 13, that a directory entry carries.
func namePart(entry []byte) string {
	var units []uint16
	for _, part := range [][]byte{entry[1:11], entry[14:26], entry[28:32]} {
		for ; len(part) > 0; part = part[2:] {
			unit := binary.LittleEndian.Uint16(part)
			if unit == 0 {
				return string(utf16.Decode(units))
			}
			units = append(units, unit)
		}
	}
	return string(utf16.Decode(units))
}
