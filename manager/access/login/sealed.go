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

// KeySize is the length of a key in bytes.
const KeySize = 32

// newKey returns a random key.
func newKey() []byte {
	key := make([]byte, KeySize)
	_, _ = rand.Read(key) // never fails
	return key
}

// seal encrypts values for one purpose. Browsers can keep the values, but can't read or change them. A seal
// refuses to open a value that was sealed for another purpose or with another key.
type seal struct{ aead cipher.AEAD }

func newSeal(key []byte, purpose string) (seal, error) {
	if len(key) != KeySize {
		return seal{}, fmt.Errorf("the key of the sessions has %d bytes, but must have %d", len(key), KeySize)
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

// sealValue encrypts a value and returns it as text for a cookie.
func (s seal) sealValue(value any) (string, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("write a cookie: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, data, nil)), nil
}

// longestCookie is the maximum length of a value. Browsers keep 4096 bytes including the name and the attributes.
const longestCookie = 3900

// errSeal omits the cause, which would only help to forge cookies.
var errSeal = errors.New("the cookie is not ours")

// openValue decrypts a value from sealValue.
func (s seal) openValue(text string, into any) error {
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

// randomText returns a text that can't be guessed.
func randomText() string { return rand.Text() }
