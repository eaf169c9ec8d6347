package introspect

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"vmop/internal/atomicfile"
)

// form is a part of the names of cached files. It identifies their content and format.
const form = "2"

// cacheFile returns the path of the cache for a program, or "". The name depends on the path, the time and the size of
// the program.
func cacheFile(dir, program string) string {
	info, err := os.Stat(program)
	if dir == "" || err != nil {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%d\x00%s", program, info.ModTime().UnixNano(), info.Size(),
		form))
	return filepath.Join(dir, fmt.Sprintf("%s-%x.json", filepath.Base(program), sum[:8]))
}

// readCache reads the cache. If it returns false, QEMU must be queried again.
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

// writeCache writes the cache. If writing fails, QEMU is queried again the next time.
func (q *QEMU) writeCache() {
	text, err := json.Marshal(q.known)
	if q.cache == "" || err != nil || os.MkdirAll(filepath.Dir(q.cache), 0o700) != nil {
		return
	}
	_ = atomicfile.Write(q.cache, text, 0o600, atomicfile.Volatile) // on failure, the old cache remains
}
