package login

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
)

// KeySize is how many bytes a key must have.
const KeySize = 32

// NewKey returns a random key.
func NewKey() []byte {
	key := make([]byte, KeySize)
	_, _ = rand.Read(key) // it never fails
	return key
}

// A seal encrypts values for one purpose, so that browsers can keep them and can neither
// read nor change them. A value that was sealed for another purpose, or with another key, isn't
// opened.
type seal struct{ aead cipher.AEAD }

func newSeal(key []byte, purpose string) (seal, error) {
	if len(key) != KeySize {
		return seal{}, fmt.Errorf("the key of the sessions has %d bytes, want %d", len(key), KeySize)
	}
	own, err := hkdf.Key(sha256.New, key, nil, "vmop "+purpose, KeySize)
	if err != nil {
		return seal{}, fmt.Errorf("derive a key: %w", err)
	}
	block, err := aes.NewCipher(own)
	if err != nil {
		return seal{}, fmt.Errorf("derive a key: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return seal{aead}, err
}

// close returns a value as the text of a cookie.
func (s seal) close(value any) (string, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("write a cookie: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, data, nil)), nil
}

// longestCookie is what browsers keep: 4096 bytes with the name and the attributes.
const longestCookie = 3900

// errSeal says no more: the cause would help only to forge cookies.
var errSeal = errors.New("the cookie is not ours")

// open reads a value that close has returned.
func (s seal) open(text string, into any) error {
	if len(text) > longestCookie {
		return errSeal
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return errSeal
	}
	data, err = s.aead.Open(nil, nil, data, nil)
	if err != nil {
		return errSeal
	}
	if err := json.Unmarshal(data, into); err != nil {
		return errSeal
	}
	return nil
}

// random returns a text that can't be guessed.
func random() string { return rand.Text() }
