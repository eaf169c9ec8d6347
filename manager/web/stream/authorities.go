package stream

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"time"

	"vmop/runner/control/remote"
)

// Lifetimes of keys.
const (
	// authorityLife is how long an authority is valid. The next authority is created when a third of it is left.
	authorityLife = 360 * 24 * time.Hour
	// settleTime is the age at which an authority starts to sign. By then every kubelet has updated the ConfigMap in
	// its pods, and every manager has read the Secret.
	settleTime = 48 * time.Hour
	// certificateLife is how long the certificate of a manager process is valid. It is renewed when half of it is left.
	certificateLife = 24 * time.Hour
	// skew is the maximum difference between clocks.
	skew = time.Hour
)

// An authority signs the certificates of the manager.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// authorities are all authorities, oldest first.
type authorities []authority

// advanceTo drops expired authorities. It adds an authority if the newest is due for renewal, or there is none.
func (a authorities) advanceTo(now time.Time) (next authorities, changed bool, err error) {
	next = slices.DeleteFunc(slices.Clone(a), func(one authority) bool {
		return now.After(one.certificate.NotAfter)
	})
	changed = len(next) != len(a)
	if len(next) > 0 && next[len(next)-1].certificate.NotAfter.Sub(now) > authorityLife/3 {
		return next, changed, nil
	}
	made, err := newAuthority(now)
	if err != nil {
		return a, false, err
	}
	return append(next, made), true, nil
}

func newAuthority(now time.Time) (authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return authority{}, fmt.Errorf("create the key of an authority: %w", err)
	}
	serial, err := serialNumber()
	if err != nil {
		return authority{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "vm-operator " + now.UTC().Format(time.DateOnly)},
		NotBefore: now.Add(-skew), NotAfter: now.Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	certificate, err := signCertificate(template, template, key, key)
	return authority{certificate, key}, err
}

// signCertificate returns a certificate for a public key.
func signCertificate(template, parent *x509.Certificate, of, by *ecdsa.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, of.Public(), by)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	return certificate, nil
}

func serialNumber() (*big.Int, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 126))
	if err != nil {
		return nil, fmt.Errorf("make a certificate's number: %w", err)
	}
	return n, nil
}

// signerAt returns the authority that signs: the newest settled authority, or the oldest if none has settled.
func (a authorities) signerAt(now time.Time) (authority, error) {
	for _, one := range slices.Backward(a) {
		if now.Sub(one.certificate.NotBefore) >= skew+settleTime {
			return one, nil
		}
	}
	if len(a) == 0 {
		return authority{}, errors.New("there is no authority")
	}
	return a[0], nil
}

// issueCertificate returns a certificate for this manager process.
func (a authorities) issueCertificate(now time.Time) (*tls.Certificate, error) {
	by, err := a.signerAt(now)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the manager's key: %w", err)
	}
	serial, err := serialNumber()
	if err != nil {
		return nil, err
	}
	name, err := url.Parse(remote.ManagerURI)
	if err != nil {
		return nil, fmt.Errorf("make the manager's certificate: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "manager"}, URIs: []*url.URL{name},
		NotBefore: now.Add(-skew), NotAfter: now.Add(certificateLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	leaf, err := signCertificate(template, by.certificate, key, by.key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}, nil
}

// The types of PEM blocks.
const (
	pemCertificate = "CERTIFICATE"
	pemKey         = "PRIVATE KEY"
)

// publicPEM returns the certificates as PEM.
func (a authorities) publicPEM() []byte {
	var text []byte
	for _, one := range a {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: one.certificate.Raw})...)
	}
	return text
}

// secretPEM returns certificates and keys as PEM, each key after its certificate.
func (a authorities) secretPEM() ([]byte, error) {
	var text []byte
	for _, one := range a {
		der, err := x509.MarshalPKCS8PrivateKey(one.key)
		if err != nil {
			return nil, fmt.Errorf("encode the key of an authority: %w", err)
		}
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: one.certificate.Raw})...)
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: pemKey, Bytes: der})...)
	}
	return text, nil
}

// parseSecret parses the result of secretPEM. Its errors don't quote it.
func parseSecret(text []byte) (authorities, error) {
	var all authorities
	for len(text) > 0 {
		var certificate, key *pem.Block
		if certificate, text = pem.Decode(text); certificate != nil {
			key, text = pem.Decode(text)
		}
		if certificate == nil || key == nil || certificate.Type != pemCertificate || key.Type != pemKey {
			return nil, fmt.Errorf("authority %d: must have a block %s and a block %s", len(all)+1, pemCertificate,
				pemKey)
		}
		parsed, err := x509.ParseCertificate(certificate.Bytes)
		if err != nil {
			return nil, fmt.Errorf("authority %d: its certificate is damaged", len(all)+1)
		}
		private, err := x509.ParsePKCS8PrivateKey(key.Bytes)
		signs, ok := private.(*ecdsa.PrivateKey)
		if err != nil || !ok || !signs.PublicKey.Equal(parsed.PublicKey) {
			return nil, fmt.Errorf("authority %d: its key is damaged, or belongs to another authority", len(all)+1)
		}
		all = append(all, authority{parsed, signs})
	}
	slices.SortStableFunc(all, func(a, b authority) int {
		return a.certificate.NotBefore.Compare(b.certificate.NotBefore)
	})
	return all, nil
}
