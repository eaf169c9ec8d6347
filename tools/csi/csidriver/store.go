package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// store is the folder of the volumes:
//
//	volumes/v-….img snapshots/s-….img   the bytes
//	volumes/v-….json snapshots/s-….json what is known of them; it is written last, and removed first
//	nodes/NODE/v-…                      the loop device by which a node has the volume
type store struct{ dir string }

// kinds of what has bytes.
const (
	volumes   = "volumes"
	snapshots = "snapshots"
)

// A record says what is known of a volume or a snapshot.
type record struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Size int64  `json:"size"`
	// From is the volume of a snapshot, or what a volume was copied from.
	From string    `json:"from,omitempty"`
	Made time.Time `json:"made"`
	// Nodes are those that may have a volume.
	Nodes []string `json:"nodes,omitempty"`
	// Shared says that several nodes may have it at a time.
	Shared bool `json:"shared,omitempty"`
}

// prepare makes the folders. A node is known from then on.
func (s store) prepare(node string) error {
	for _, sub := range []string{volumes, snapshots, filepath.Join("nodes", node)} {
		if err := os.MkdirAll(filepath.Join(s.dir, sub), 0o700); err != nil {
			return fmt.Errorf("folder of the volumes: %w", err)
		}
	}
	return nil
}

// lock keeps all others out until unlock is called.
func (s store) lock() (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(s.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock the volumes: %w", err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// idOf is what something of a name is called: a repeated request finds what the first has made.
func idOf(kind, name string) string {
	return fmt.Sprintf("%c-%x", kind[0], sha256.Sum256([]byte(name)))[:34]
}

var wellFormed = regexp.MustCompile(`^[vs]-[0-9a-f]{32}$`)

func (s store) path(kind, id, end string) string { return filepath.Join(s.dir, kind, id+end) }

func (s store) image(kind, id string) string { return s.path(kind, id, ".img") }

// get returns a record, or an error with the code NotFound.
func (s store) get(kind, id string) (record, error) {
	var r record
	if !wellFormed.MatchString(id) || id[0] != kind[0] {
		return r, status.Errorf(codes.NotFound, "there is no %s in the %s", id, kind)
	}
	text, err := os.ReadFile(s.path(kind, id, ".json"))
	if errors.Is(err, os.ErrNotExist) {
		return r, status.Errorf(codes.NotFound, "there is no %s in the %s", id, kind)
	}
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(text, &r)
}

// put writes a record as a whole or not at all.
func (s store) put(kind string, r record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	path := s.path(kind, r.ID, ".json")
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// remove removes a volume or snapshot, or what a killed process has left of it.
func (s store) remove(kind, id string) error {
	if !wellFormed.MatchString(id) {
		return nil
	}
	for _, end := range []string{".json", ".img"} {
		if err := os.Remove(s.path(kind, id, end)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// list returns all records of a kind, by their ids.
func (s store) list(kind string) ([]record, error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, kind))
	if err != nil {
		return nil, err
	}
	var all []record
	for _, entry := range entries {
		id, ok := strings.CutSuffix(entry.Name(), ".json")
		if !ok {
			continue
		}
		r, err := s.get(kind, id)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// allow notes that a node may have a volume, or that it may not any more.
func (s store) allow(r record, node string, yes bool) error {
	r.Nodes = slices.DeleteFunc(r.Nodes, func(n string) bool { return n == node })
	if yes {
		r.Nodes = append(r.Nodes, node)
	}
	return s.put(volumes, r)
}

// knows says whether there is a node.
func (s store) knows(node string) bool {
	if node != filepath.Base(node) || node == "." || node == ".." {
		return false
	}
	_, err := os.Stat(filepath.Join(s.dir, "nodes", node))
	return err == nil
}

// create makes the bytes of something: nothing but a hole, or a copy of a file that is not larger.
func (s store) create(kind, id, from string, size int64) (err error) {
	to := s.image(kind, id)
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, out.Close()); err != nil {
			err = errors.Join(err, os.Remove(to))
		}
	}()
	if from != "" {
		in, err := os.Open(from)
		if err != nil {
			return err
		}
		defer func() { _ = in.Close() }()
		if unix.IoctlFileClone(int(out.Fd()), int(in.Fd())) != nil {
			if err := copyMoment(out, in); err != nil {
				return fmt.Errorf("copy %s: %w", from, err)
			}
		}
	}
	return out.Truncate(size)
}

// mostCopies bounds how often a file is copied that is written to all the time.
const mostCopies = 10

// copyMoment copies a file that may be written to: until two copies in a row are alike, so that it was so at one
// moment. The parts of a file system from different ones may not fit together.
func copyMoment(out, in *os.File) error {
	var last []byte
	for range mostCopies {
		if err := out.Truncate(0); err != nil {
			return err
		}
		sum := sha256.New()
		if err := copyData(out, in, sum); err != nil {
			return err
		}
		now := sum.Sum(nil)
		if bytes.Equal(now, last) {
			return nil
		}
		last = now
	}
	return nil
}

// copyData copies what is data, and leaves holes. The sum gets what is copied, and where it is.
func copyData(out, in *os.File, sum io.Writer) error {
	for at := int64(0); ; {
		begin, err := in.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // there is a hole up to the end
		}
		if err != nil {
			return err
		}
		end, err := in.Seek(begin, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		if _, err := in.Seek(begin, io.SeekStart); err != nil {
			return err
		}
		if _, err := out.Seek(begin, io.SeekStart); err != nil {
			return err
		}
		_, _ = fmt.Fprintln(sum, begin, end) // a hash takes everything
		if _, err := io.CopyN(io.MultiWriter(out, sum), in, end-begin); err != nil {
			return err
		}
		at = end
	}
}

// flush has all that was written to a volume be in its file.
func (s store) flush(id string) error {
	notes, err := filepath.Glob(filepath.Join(s.dir, "nodes", "*", id))
	if err != nil {
		return err
	}
	for _, note := range notes {
		device, err := os.ReadFile(note)
		if err != nil {
			return err
		}
		if !backs(string(device), s.image(volumes, id)) {
			continue
		}
		f, err := os.Open(string(device))
		if err != nil {
			return err
		}
		// That includes the file system on the device, wherever it is mounted.
		err = unix.IoctlSetInt(int(f.Fd()), unix.BLKFLSBUF, 0)
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("flush %s: %w", device, err)
		}
	}
	return nil
}
