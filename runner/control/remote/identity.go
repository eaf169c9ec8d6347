package remote

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"math/big"
	"time"
)

// KeyHash identifies the public key of a certificate: SHA-256 of its SubjectPublicKeyInfo, in
// hexadecimal, 64 characters.
func KeyHash(certificate *x509.Certificate) string {
	sum := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}

// newIdentity makes a key, and a certificate around it, since TLS sends keys in no other
// form. What it says besides the key is checked by no client.
func newIdentity(now time.Time) (certificate tls.Certificate, hash string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return certificate, "", fmt.Errorf("make the runner's key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: now.AddDate(0, 0, -1), NotAfter: now.AddDate(100, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return certificate, "", fmt.Errorf("make the runner's certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return certificate, "", fmt.Errorf("make the runner's certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, KeyHash(leaf), nil
}
