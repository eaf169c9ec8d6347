package nbd

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// File names in a folder with certificates, as QEMU expects them (tls-creds-x509).
const (
	CAFile                = "ca-cert.pem" // the authority of both sides
	ServerCertificateFile = "server-cert.pem"
	ServerKeyFile         = "server-key.pem"
	ClientCertificateFile = "client-cert.pem"
	ClientKeyFile         = "client-key.pem"
)

// years is the lifetime of certificates. They aren't renewed while a VM or an export runs, and QEMU doesn't check a
// revocation list.
const years = 20

// clientName is the common name of every client. QEMU ignores the purpose of a certificate, so without this name,
// servers of the same authority could use each other's disks.
const clientName = "client"

// Authority signs the certificates of one VM and of the servers of its disks.
type Authority struct {
	// Certificate is public, PEM.
	Certificate []byte
	key         crypto.Signer
	parsed      *x509.Certificate
}

// Pair is a certificate and its key, PEM.
type Pair struct{ Certificate, Key []byte }

// NewAuthority creates an authority with a human-readable name.
func NewAuthority(name string, now time.Time) (*Authority, error) {
	t := certificateTemplate(name, now)
	t.IsCA, t.MaxPathLenZero, t.KeyUsage = true, true, x509.KeyUsageCertSign
	a := &Authority{parsed: t}
	pair, err := a.signPair(t)
	if err != nil {
		return nil, fmt.Errorf("make an authority: %w", err)
	}
	return ReadAuthority(pair)
}

// ReadAuthority returns the authority from the result of Pair.
func ReadAuthority(p Pair) (*Authority, error) {
	certificate, _ := pem.Decode(p.Certificate)
	key, _ := pem.Decode(p.Key)
	if certificate == nil || key == nil {
		return nil, errors.New("read an authority: must be a certificate and a key in PEM")
	}
	parsed, err := x509.ParseCertificate(certificate.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read an authority: %w", err)
	}
	signer, err := x509.ParsePKCS8PrivateKey(key.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read an authority: %w", err)
	}
	ec, ok := signer.(*ecdsa.PrivateKey)
	if !ok || !ec.PublicKey.Equal(parsed.PublicKey) || !parsed.IsCA {
		return nil, errors.New("read an authority: the key does not match the certificate, or the certificate is not an authority's")
	}
	return &Authority{Certificate: p.Certificate, key: ec, parsed: parsed}, nil
}

// Pair returns the certificate and key of the authority itself, for storage.
func (a *Authority) Pair() (Pair, error) { return encodePair(a.parsed.Raw, a.key) }

// Server creates the certificate of a server. Clients reach the server under the names and addresses.
func (a *Authority) Server(names []string, addresses []net.IP, now time.Time) (Pair, error) {
	t := certificateTemplate("server", now)
	t.DNSNames, t.IPAddresses = names, addresses
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	return a.signPair(t)
}

// Client creates the certificate of a client.
func (a *Authority) Client(now time.Time) (Pair, error) {
	t := certificateTemplate(clientName, now)
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.signPair(t)
}

func certificateTemplate(name string, now time.Time) *x509.Certificate {
	return &x509.Certificate{
		Subject:   pkix.Name{CommonName: name},
		NotBefore: now.Add(-24 * time.Hour), NotAfter: now.AddDate(years, 0, 0), // clocks differ
		// Many QEMUs, such as 10.0.2, require KeyEncipherment, which TLS 1.3 doesn't use.
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, BasicConstraintsValid: true,
	}
}

// signPair creates a key and its certificate. The authority's own certificate is self-signed.
func (a *Authority) signPair(t *x509.Certificate) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	if t.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return Pair{}, err
	}
	signer := a.key
	if t.IsCA {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.parsed, key.Public(), signer)
	if err != nil {
		return Pair{}, fmt.Errorf("sign the certificate of a %s: %w", t.Subject.CommonName, err)
	}
	return encodePair(der, key)
}

func encodePair(certificate []byte, key crypto.Signer) (Pair, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("encode a key: %w", err)
	}
	return Pair{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
	}, nil
}
