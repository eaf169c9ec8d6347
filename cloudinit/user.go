package cloudinit

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/go-crypt/crypt/algorithm/shacrypt"
)

// LongestPassword is the maximum length of a password for HashPassword, in bytes. It limits the time for hashing.
const LongestPassword = 256

// HashPassword returns the hash of a password, for the key passwd of a user in user-data: SHA-512 crypt with a
// random salt, which every Linux supports (crypt(5)).
func HashPassword(password string) (string, error) {
	if password == "" || len(password) > LongestPassword || strings.ContainsAny(password, "\x00\n\r") {
		return "", fmt.Errorf("a password has one line of at most %d bytes", LongestPassword)
	}
	hasher, err := shacrypt.New(shacrypt.WithSHA512(), shacrypt.WithIterations(hashRounds))
	if err != nil {
		return "", fmt.Errorf("hash a password: %w", err)
	}
	digest, err := hasher.Hash(password)
	if err != nil {
		return "", fmt.Errorf("hash a password: %w", err)
	}
	return digest.Encode(), nil
}

// hashRounds is chosen so that each guess at a password takes a tenth of a second.
const hashRounds = 100_000

// PublicKeys returns the public SSH keys in a text with one key per line, in the format of authorized_keys
// without options. It rejects a private key, and never includes it in the error.
func PublicKeys(text string) (keys []string, err error) {
	if strings.Contains(text, "PRIVATE KEY") {
		return nil, errors.New("it is a private key; use the public key, as in ~/.ssh/id_ed25519.pub")
	}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		words := strings.Fields(line)
		if len(words) < 2 || !isKeyType(words[0]) || !isKeyData(words[1]) {
			return nil, fmt.Errorf("line %d is not a public key; use a key as in ~/.ssh/id_ed25519.pub", number)
		}
		keys = append(keys, line)
	}
	return keys, nil
}

func isKeyType(word string) bool {
	return strings.HasPrefix(word, "ssh-") || strings.HasPrefix(word, "ecdsa-sha2-") || strings.HasPrefix(word, "sk-")
}

func isKeyData(word string) bool {
	_, err := base64.StdEncoding.DecodeString(word)
	return err == nil
}
