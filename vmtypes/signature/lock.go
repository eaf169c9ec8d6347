package signature

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"vmop/internal/readfile"
)

// LockFile is the name of the lock file in a folder of VM types, which "vmrunner vmtype vendor" writes. MostLock is its
// maximum size, in bytes.
const (
	LockFile = "vmtypes.lock.json"
	MostLock = 4 << 20
)

// ReadProof returns the signature of a type in the lock file of a folder, or nil. It is not verified.
func ReadProof(dir, name string) (*Proof, error) {
	path := filepath.Join(dir, LockFile)
	text, err := readfile.ReadFile(path, MostLock)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the lock file: %w", err)
	}
	var lock struct {
		Types []struct {
			Name  string `json:"name"`
			Proof *Proof `json:"proof"`
		} `json:"types"`
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		return nil, fmt.Errorf("lock file %s: %w", path, err)
	}
	for _, t := range lock.Types {
		if t.Name == name {
			return t.Proof, nil
		}
	}
	return nil, nil
}
