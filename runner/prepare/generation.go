package prepare

import (
	"os"
	"path/filepath"
	"strings"

	"vmop/internal/atomicfile"
	"vmop/internal/readfile"
	"vmop/vmspec"
)

// readGeneration returns the generation id in a data directory. It is empty if the disks were never restored.
func readGeneration(dataDir string) string {
	data, err := readfile.ReadFile(filepath.Join(dataDir, generationFile), LargestNote)
	id := strings.TrimSpace(string(data))
	if err != nil || !vmspec.ValidUUID(id) {
		return ""
	}
	return id
}

// KeepGeneration stores an id of the guest's disks in the data directory. The guest gets it at its next start
// (vmgenid), and thereby learns that its disks were restored. See docs/decisions/0195-generation-id.md.
func KeepGeneration(dataDir, id string) error {
	return atomicfile.Write(filepath.Join(dataDir, generationFile), []byte(id+"\n"), 0o644, atomicfile.Synced)
}

// readKinds returns the kinds of the copies in a data directory, by the paths of the copies.
func readKinds(dataDir string) map[string]string {
	kinds := map[string]string{}
	files, _ := os.ReadDir(dataDir) // before the first start it doesn't exist
	for _, file := range files {
		name, ok := strings.CutSuffix(file.Name(), KindSuffix)
		if !ok {
			continue
		}
		if data, err := readfile.ReadFile(filepath.Join(dataDir, file.Name()), LargestNote); err == nil {
			kinds[filepath.Join(dataDir, name)] = strings.TrimSpace(string(data))
		}
	}
	return kinds
}
