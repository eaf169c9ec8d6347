package config

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"vmop/internal/atomicfile"
	"vmop/internal/readfile"
	"vmop/vmspec"
)

// UUIDFile in the data directory contains the machine's uuid in its first line.
const UUIDFile = "uuid.txt"

// largestUUID bounds that file, in bytes: people may have written more to it.
const largestUUID = 4096

// PlaceholderUUID stands for a uuid that is created only when the VM starts.
const PlaceholderUUID = "00000000-0000-4000-8000-000000000000"

// EnsureUUID returns the uuid of the machine with this data directory:
//
//   - the explicit uuid, if it isn't empty, which is not stored;
//   - otherwise the first line of uuid.txt;
//   - otherwise a random uuid (version 4), which is stored there, in an existing data directory.
//
// With create false, it writes no file, and returns PlaceholderUUID instead of a new uuid.
func EnsureUUID(dataDir, explicit string, create bool) (string, error) {
	if explicit != "" {
		return explicit, nil
	}
	file := filepath.Join(dataDir, UUIDFile)
	data, err := readfile.ReadFile(file, largestUUID)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("read the VM's uuid: %w", err)
	case len(bytes.TrimSpace(data)) > 0: // an empty file is left by a crash
		first, _, _ := strings.Cut(string(data), "\n")
		id := strings.TrimSpace(first)
		if !vmspec.ValidUUID(id) {
			const wrong = "read the VM's uuid: the first line of %s is %s, not a uuid; correct it or remove the file"
			return "", fmt.Errorf(wrong, file, quoteWord(id))
		}
		return id, nil
	case !create:
		return PlaceholderUUID, nil
	}
	id := NewUUID()
	return id, KeepUUID(dataDir, id)
}

// KeepUUID stores the uuid of the machine in its data directory.
func KeepUUID(dataDir, id string) error {
	path := filepath.Join(dataDir, UUIDFile)
	if err := atomicfile.Write(path, []byte(id+"\n"), 0o644, atomicfile.Synced); err != nil {
		return fmt.Errorf("store the VM's uuid: %w", err)
	}
	return nil
}

// NewUUID returns a random uuid (RFC 9562, version 4).
func NewUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, see crypto/rand
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:])
}
