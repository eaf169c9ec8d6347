package login

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"vmop/durable"
	"vmop/regular"
)

const (
	// mostKept sessions of links and tokens last at a time; another one ends the one that would end first.
	mostKept    = 1000
	largestKept = 1 << 20 // bytes of the file
)

// kept are the sessions of one-time links and of tokens. They are in a file, so that they outlive the program. The file
// has hashes of their names: who reads it cannot make a cookie of it, as only sessions that are in it are accepted.
type kept struct {
	path string // "" means that they end with the program

	mu   sync.Mutex
	data keptData
}

type keptData struct {
	Key      []byte           `json:"key"`      // encrypts cookies
	Sessions map[string]int64 `json:"sessions"` // until when, in Unix time, by their keys
}

// readKept reads the file. A file that is missing is written with a new key.
func readKept(path string) (*kept, error) {
	k := &kept{path: path, data: keptData{Sessions: map[string]int64{}}}
	if path != "" {
		text, err := regular.ReadFile(path, largestKept)
		if err == nil {
			err = json.Unmarshal(text, &k.data)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("cannot read the sessions: %w; remove %s, and log in again", err, path)
		}
	}
	if len(k.data.Key) != KeySize || k.data.Sessions == nil {
		k.data = keptData{Key: NewKey(), Sessions: map[string]int64{}}
	}
	return k, k.write()
}

// has reports whether a session lasts.
func (k *kept) has(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.data.Sessions[key]
	return ok
}

// add remembers a session.
func (k *kept) add(key string, until, now time.Time) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := k.data.Sessions
	maps.DeleteFunc(all, func(_ string, until int64) bool { return until <= now.Unix() })
	if len(all) >= mostKept {
		first := slices.MinFunc(slices.Collect(maps.Keys(all)), func(a, b string) int { return int(all[a] - all[b]) })
		delete(all, first)
	}
	all[key] = until.Unix()
	return k.write()
}

// remove forgets a session.
func (k *kept) remove(key string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.data.Sessions, key)
	return k.write()
}

// write writes the file. Without it a session would last that has ended.
func (k *kept) write() error {
	if k.path == "" {
		return nil
	}
	text, err := json.Marshal(k.data)
	if err == nil {
		err = durable.Write(k.path, text, 0o600, durable.Synced)
	}
	if err != nil {
		return fmt.Errorf("cannot keep the sessions: %w", err)
	}
	return nil
}
