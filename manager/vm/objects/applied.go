package objects

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// hashOf returns a hash of a value's JSON.
//
// See docs/decisions/0037-applied-hash.md.
func hashOf(value any) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("hash what is to be applied: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}

// annotated is a configuration with settable annotations.
type annotated[T any] interface {
	WithAnnotations(entries map[string]string) T
}

// stampHash adds two annotations to an otherwise complete configuration: its hash (AnnotationApplied) and the manager's
// version.
func stampHash[T annotated[T]](configuration T, s Settings) (T, error) {
	hash, err := hashOf(configuration)
	if err != nil {
		return configuration, err
	}
	return configuration.WithAnnotations(map[string]string{AnnotationApplied: hash, AnnotationVersion: s.Version}), nil
}

// asApplied converts a typed part of a VM to its apply configuration, which has the same JSON.
func asApplied[T any](what string, from any) (*T, error) {
	text, err := json.Marshal(from)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", what, err)
	}
	to := new(T)
	if err := json.Unmarshal(text, to); err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	return to, nil
}
