package introspect

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"vmop/internal/atomicfile"
)

// form is part of the name of cached files: what they hold, and how.
const form = "1"

// cacheFile returns the path of the cache for a program, or "". The name changes with the
// program: its path, its time and its size.
func cacheFile(dir, program string) string {
	info, err := os.Stat(program)
	if dir == "" || err != nil {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%d\x00%s", program, info.ModTime().UnixNano(), info.Size(),
		form))
	return filepath.Join(dir, fmt.Sprintf("%s-%x.json", filepath.Base(program), sum[:8]))
}

// readCache reads the cache. If it can't be read, QEMU is queried again.
func (q *QEMU) readCache() bool {
	if q.cache == "" {
		return false
	}
	text, err := os.ReadFile(q.cache)
	if err != nil || json.Unmarshal(text, &q.known) != nil || q.known.Version == "" || q.known.Types == nil {
		q.known = knowledge{}
		return false
	}
	return true
}

// writeCache writes what is known. Where that can't be done, it is asked again.
func (q *QEMU) writeCache() {
	text, err := json.Marshal(q.known)
	if q.cache == "" || err != nil || os.MkdirAll(filepath.Dir(q.cache), 0o700) != nil {
		return
	}
	_ = atomicfile.Write(q.cache, text, 0o600, atomicfile.Volatile) // or the cache is as it was
}
