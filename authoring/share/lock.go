package share

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"vmop/internal/atomicfile"
	"vmop/internal/readfile"
	"vmop/vmtypes/artifact"
	"vmop/vmtypes/signature"
)

// A Lock contains the types in a folder that came from registries.
type Lock struct {
	// Types are sorted by name.
	Types []Locked `json:"types"`
}

// Locked is a type from a registry.
type Locked struct {
	Name string `json:"name"`
	// Image is the reference from which the type was read. Digest is the digest of the artifact at that time:
	// "sha256:…".
	Image  string `json:"image"`
	Digest string `json:"digest"`
	// Version is the tag that a range of versions in the reference had selected.
	Version string `json:"version,omitempty"`
	// Key is a public key as PEM. If it isn't "", its owner must have signed this type and its later versions. Proof is
	// the signature.
	Key   string           `json:"key,omitempty"`
	Proof *signature.Proof `json:"proof,omitempty"`
	// Files maps the names of the files to their checksums.
	Files map[string]string `json:"files"`
}

// ReadLock reads the lock file of a folder. If the file is missing, the lock is empty.
func ReadLock(dir string) (*Lock, error) {
	path := filepath.Join(dir, signature.LockFile)
	text, err := readfile.ReadFile(path, signature.MostLock)
	if errors.Is(err, fs.ErrNotExist) {
		return &Lock{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the lock file: %w", err)
	}
	var l Lock
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return nil, fmt.Errorf("lock file %s: %w", path, err)
	}
	for _, t := range l.Types {
		if _, err := artifact.Pinned(t.Image, t.Digest); err != nil || !strings.HasPrefix(t.Digest, "sha256:") {
			return nil, errors.Join(fmt.Errorf("lock file %s: type %s has no digest of an image", path, t.Name), err)
		}
		if _, err := t.Keys(); err != nil {
			return nil, fmt.Errorf("lock file %s: key of type %s: %w", path, t.Name, err)
		}
		for name := range t.Files {
			if err := artifact.CheckName(name); err != nil {
				return nil, fmt.Errorf("lock file %s: %w", path, err)
			}
		}
	}
	return &l, nil
}

// Keys returns the key that must have signed the type, if any.
func (t Locked) Keys() ([]signature.Key, error) {
	if t.Key == "" {
		return nil, nil
	}
	key, err := signature.ReadKey([]byte(t.Key))
	return []signature.Key{key}, err
}

// checkProof returns an error if the lock has a key for the type, and no signature with it for the digest.
func (t Locked) checkProof() error {
	keys, err := t.Keys()
	if err != nil || keys == nil {
		return err
	}
	if t.Proof == nil || sha256Of([]byte(t.Proof.Manifest)) != t.Digest {
		return errors.New("there is no signature for its digest")
	}
	_, err = t.Proof.Signer(keys)
	return err
}

// writeFile writes the lock file.
func (l *Lock) writeFile(dir string) error {
	slices.SortFunc(l.Types, func(a, b Locked) int { return strings.Compare(a.Name, b.Name) })
	text, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return fmt.Errorf("write the lock file: %w", err)
	}
	return atomicfile.Write(filepath.Join(dir, signature.LockFile), append(text, '\n'), 0o644, atomicfile.Synced)
}

// Differences returns a line for each file in a folder that is missing or differs from the lock file.
func (l *Lock) Differences(dir string) ([]string, error) {
	var all []string
	for _, t := range l.Types {
		if err := t.checkProof(); err != nil {
			all = append(all, fmt.Sprintf("%s: of type %s: %s", signature.LockFile, t.Name, err))
		}
		for _, name := range sortedNames(t.Files) {
			switch sum, err := checksumIn(dir, name); {
			case err != nil:
				return nil, err
			case sum == "":
				all = append(all, fmt.Sprintf("%s: of type %s, is missing", name, t.Name))
			case sum != t.Files[name]:
				all = append(all, fmt.Sprintf("%s: of type %s, was changed", name, t.Name))
			}
		}
	}
	return all, nil
}

// checksumIn returns the checksum of a file; "" if the file doesn't exist.
func checksumIn(dir, name string) (string, error) {
	text, err := readfile.ReadFile(filepath.Join(dir, filepath.FromSlash(name)), artifact.MaxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case errors.As(err, new(*readfile.SizeError)):
		return "another", nil
	case err != nil:
		return "", fmt.Errorf("read a file of a VM type: %w", err)
	}
	return sha256Of(text), nil
}

func sha256Of(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}
