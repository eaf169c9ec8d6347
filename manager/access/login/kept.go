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

	"vmop/internal/atomicfile"
	"vmop/internal/readfile"
)

const (
	// mostKept is the maximum number of sessions of links and tokens. One more session replaces the session that
	// would expire first.
	mostKept    = 1000
	largestKept = 1 << 20 // bytes of the file
)

// kept stores the sessions of one-time links and of tokens in a file, so that they survive a restart. The file
// contains only hashes of session IDs. Its readers can't create a valid cookie, because only sessions listed in
// the file are accepted.
type kept struct {
	path string // "" keeps the sessions in memory only

	mu   sync.Mutex
	data keptData
}

type keptData struct {
	Key      []byte           `json:"key"`      // encrypts cookies
	Sessions map[string]int64 `json:"sessions"` // expiry in Unix time, by session key
}

// readKept reads the file. If the file is missing, it writes the file with a new key.
func readKept(path string) (*kept, error) {
	k := &kept{path: path, data: keptData{Sessions: map[string]int64{}}}
	if path != "" {
		text, err := readfile.ReadFile(path, largestKept)
		if err == nil {
			err = json.Unmarshal(text, &k.data)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("cannot read the sessions: %w; remove %s, and log in again", err, path)
		}
	}
	if len(k.data.Key) != KeySize || k.data.Sessions == nil {
		k.data = keptData{Key: newKey(), Sessions: map[string]int64{}}
	}
	return k, k.writeSessions()
}

// hasSession reports whether a session is still valid.
func (k *kept) hasSession(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.data.Sessions[key]
	return ok
}

// addSession stores a session.
func (k *kept) addSession(key string, until, now time.Time) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := k.data.Sessions
	maps.DeleteFunc(all, func(_ string, until int64) bool { return until <= now.Unix() })
	if len(all) >= mostKept {
		first := slices.MinFunc(slices.Collect(maps.Keys(all)), func(a, b string) int { return int(all[a] - all[b]) })
		delete(all, first)
	}
	all[key] = until.Unix()
	return k.writeSessions()
}

// removeSession deletes a session.
func (k *kept) removeSession(key string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.data.Sessions, key)
	return k.writeSessions()
}

// writeSessions writes the file. If it fails, an ended session could become valid again after a restart.
func (k *kept) writeSessions() error {
	if k.path == "" {
		return nil
	}
	text, err := json.Marshal(k.data)
	if err == nil {
		err = atomicfile.Write(k.path, text, 0o600, atomicfile.Synced)
	}
	if err != nil {
		return fmt.Errorf("cannot keep the sessions: %w", err)
	}
	return nil
}
