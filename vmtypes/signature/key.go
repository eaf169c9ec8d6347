package signature

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// leastRSA is the minimum size of an RSA key, in bits.
const leastRSA = 2048

// A Key verifies signatures. Its text is PEM, as openssl pkey -pubout writes it, or cosign in cosign.pub: an Ed25519
// key, an ECDSA key with the curve P-256, or an RSA key of 2048 or more bits.
type Key struct {
	public crypto.PublicKey
	der    string // SubjectPublicKeyInfo of RFC 5280
}

// errUnfitKey describes the usable keys.
var errUnfitKey = errors.New("must be an Ed25519 key, an ECDSA key with the curve P-256, or an RSA key of 2048 bits " +
	"or more")

// ReadKey reads one public key.
func ReadKey(text []byte) (Key, error) {
	block, rest := pem.Decode(text)
	switch {
	case block == nil:
		return Key{}, errors.New("is not PEM; it must begin with -----BEGIN PUBLIC KEY-----")
	case block.Type != "PUBLIC KEY":
		return Key{}, fmt.Errorf("has a %s, not a PUBLIC KEY; openssl pkey -pubout prints one", block.Type)
	case strings.TrimSpace(string(rest)) != "":
		return Key{}, errors.New("has more than one key")
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return Key{}, fmt.Errorf("is not a public key: %w", err)
	}
	return newKey(public)
}

func newKey(public crypto.PublicKey) (Key, error) {
	fits := false
	switch k := public.(type) {
	case ed25519.PublicKey:
		fits = true
	case *ecdsa.PublicKey:
		fits = k.Curve == elliptic.P256()
	case *rsa.PublicKey:
		fits = k.N.BitLen() >= leastRSA
	}
	if !fits {
		return Key{}, errUnfitKey
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	return Key{public, string(der)}, err
}

// PEM returns the text of the key.
func (k Key) PEM() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte(k.der)}))
}

// Fingerprint returns a short text for the key: "SHA256:" and the checksum of its DER form in base64.
func (k Key) Fingerprint() string {
	sum := sha256.Sum256([]byte(k.der))
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// hasSigned reports whether a signature of a text is from the owner of the key.
func (k Key) hasSigned(text, signature []byte) bool {
	sum := sha256.Sum256(text)
	switch public := k.public.(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(public, text, signature)
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(public, sum[:], signature)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(public, crypto.SHA256, sum[:], signature) == nil
	}
	return false
}

// A Signer is a private key.
type Signer struct {
	private crypto.Signer
	public  Key
}

// ReadSigner reads a private key as openssl genpkey writes it (PKCS #8 in PEM). Errors don't contain the text.
func ReadSigner(text []byte) (*Signer, error) {
	const create = "; create one with openssl genpkey -algorithm ed25519"
	block, _ := pem.Decode(text)
	switch {
	case block == nil:
		return nil, errors.New("is not a private key in PEM" + create)
	case strings.HasPrefix(block.Type, "ENCRYPTED"):
		return nil, errors.New("is a key with a passphrase; sign with cosign, or use a key without one")
	case block.Type != "PRIVATE KEY":
		return nil, fmt.Errorf("has a %s, not a PRIVATE KEY"+create, block.Type)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("is not a private key" + create)
	}
	private, is := parsed.(crypto.Signer)
	if !is {
		return nil, errUnfitKey
	}
	public, err := newKey(private.Public())
	if err != nil {
		return nil, err
	}
	return &Signer{private, public}, nil
}

// Key returns the public key.
func (s *Signer) Key() Key { return s.public }

// Sign signs a text.
func (s *Signer) Sign(text []byte) ([]byte, error) {
	signed, hash := text, crypto.Hash(0)
	if _, is := s.private.(ed25519.PrivateKey); !is {
		sum := sha256.Sum256(text)
		signed, hash = sum[:], crypto.SHA256
	}
	signature, err := s.private.Sign(rand.Reader, signed, hash)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return signature, nil
}
