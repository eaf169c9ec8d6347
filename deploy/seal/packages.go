package main

//lint:file-ignore SA1019 The library only encodes our own key. It parses no input, and nfpm makes the signatures.

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/crypto/openpgp"
	"golang.org/x/crypto/openpgp/armor"
	"golang.org/x/crypto/openpgp/packet"
	"golang.org/x/crypto/ssh"
)

// packageKey signs RPM and Alpine packages with nfpm. rpm of RHEL 8 and apk require RSA keys.
// See docs/decisions/0186-signed-indexes-and-packages.md.
type packageKey struct{ private *rsa.PrivateKey }

// The names of the public keys in a release. Alpine's program finds the key by the name of its file.
const (
	rpmKey    = "vmop-packages.asc"
	alpineKey = "vmop.rsa.pub"
)

// smallestKey is the minimum size of an RSA key, in bits.
const smallestKey = 2048

// readPackageKey reads PACKAGE_KEY like readKey. It returns nil for "".
func readPackageKey(value string) (*packageKey, error) {
	text, err := readKeyText("PACKAGE_KEY", value)
	if text == nil || err != nil {
		return nil, err
	}
	parsed, _ := ssh.ParseRawPrivateKey(text)
	private, is := parsed.(*rsa.PrivateKey)
	if !is || private.N.BitLen() < smallestKey {
		return nil, fmt.Errorf("cannot use PACKAGE_KEY: it is not an RSA private key of at least %d bits without a "+
			"passphrase; create one with openssl genrsa -out package.key 4096", smallestKey)
	}
	return &packageKey{private}, nil
}

// writePrivate writes the key into a folder in the formats that nfpm reads: alpine.key and rpm.key.
func (k *packageKey) writePrivate(dir string) error {
	private, _, err := k.openPGP()
	block := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k.private)})
	return errors.Join(err, os.WriteFile(filepath.Join(dir, "rpm.key"), private, 0o600),
		os.WriteFile(filepath.Join(dir, "alpine.key"), block, 0o600))
}

// writePublic writes the public keys into the folder of a release.
func (k *packageKey) writePublic(dir string) error {
	_, public, err := k.openPGP()
	der, failed := x509.MarshalPKIXPublicKey(k.private.Public())
	return errors.Join(err, failed, writeFile(dir, rpmKey, public),
		writeFile(dir, alpineKey, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))
}

// openPGP returns the private and the public key in the format of OpenPGP. The time is constant, because the key's
// fingerprint depends on it.
func (k *packageKey) openPGP() (private, public []byte, err error) {
	created := time.Unix(1_767_225_600, 0) // the beginning of 2026
	key, primary := packet.NewRSAPrivateKey(created, k.private), true
	user := packet.NewUserId("vmop packages", "", "")
	entity := &openpgp.Entity{
		PrimaryKey: &key.PublicKey, PrivateKey: key,
		Identities: map[string]*openpgp.Identity{},
	}
	entity.Identities[user.Id] = &openpgp.Identity{Name: user.Id, UserId: user, SelfSignature: &packet.Signature{
		CreationTime: created, SigType: packet.SigTypePositiveCert, PubKeyAlgo: packet.PubKeyAlgoRSA,
		Hash: crypto.SHA256, IsPrimaryId: &primary, FlagsValid: true, FlagSign: true, FlagCertify: true,
		IssuerKeyId: &key.KeyId,
	}}
	var secret, open bytes.Buffer
	w, err := armor.Encode(&secret, openpgp.PrivateKeyType, nil)
	if err == nil {
		err = errors.Join(entity.SerializePrivate(w, nil), w.Close())
	}
	if err != nil {
		return nil, nil, err
	}
	w, err = armor.Encode(&open, openpgp.PublicKeyType, nil)
	if err == nil {
		err = errors.Join(entity.Serialize(w), w.Close())
	}
	return append(secret.Bytes(), '\n'), append(open.Bytes(), '\n'), err
}
