package remote

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// KeyHash identifies the public key of a certificate: SHA-256 of its SubjectPublicKeyInfo, in hexadecimal, 64
// characters.
func KeyHash(certificate *x509.Certificate) string {
	sum := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}

// newIdentity creates a key with a certificate, because TLS sends keys only in certificates. Clients check only
// the key.
func newIdentity(now time.Time) (certificate tls.Certificate, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return certificate, fmt.Errorf("make a server's key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: now.AddDate(0, 0, -1), NotAfter: now.AddDate(100, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return certificate, fmt.Errorf("make a server's certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return certificate, fmt.Errorf("make a server's certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

// A Pair is the identity of a server that uses an existing certificate. It consists of a certificate and its key,
// PEM, and the hash of the key for its clients (KeyHash).
type Pair struct {
	Certificate, Key []byte
	Hash             string
}

// NewPair creates an identity.
func NewPair(now time.Time) (Pair, error) {
	made, err := newIdentity(now)
	if err != nil {
		return Pair{}, err
	}
	key, err := x509.MarshalPKCS8PrivateKey(made.PrivateKey)
	if err != nil {
		return Pair{}, fmt.Errorf("encode a server's key: %w", err)
	}
	return Pair{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made.Leaf.Raw}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), Hash: KeyHash(made.Leaf),
	}, nil
}

// HashOf returns the hash of the key of a certificate, PEM.
func HashOf(certificate []byte) (string, error) {
	block, _ := pem.Decode(certificate)
	if block == nil {
		return "", errors.New("read a server's certificate: there is none")
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", fmt.Errorf("read a server's certificate: %w", err)
	}
	return KeyHash(parsed), nil
}
