package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority signs all certificates of a cluster.
type authority struct {
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

// newAuthority creates ca.crt in a folder.
func newAuthority(dir string) (*authority, error) {
	a := &authority{dir: dir}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "kubernetes"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	var err error
	a.key, err = a.writePair("ca", template, nil, nil)
	a.cert = template
	return a, err
}

// makeServerPair creates NAME.crt and NAME.key for a server with these addresses.
func (a *authority) makeServerPair(name string, addresses ...string) error {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost", "kubernetes.default.svc"},
	}
	for _, address := range addresses {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(address))
	}
	_, err := a.writePair(name, template, a.cert, a.key)
	return err
}

// makeClientPair creates NAME.crt and NAME.key for a user with groups.
func (a *authority) makeClientPair(name, user string, groups ...string) error {
	_, err := a.writePair(name, &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, a.cert, a.key)
	return err
}

// writePair signs a certificate and writes it with its new key. Without a parent, the certificate is self-signed.
func (a *authority) writePair(name string, template, parent *x509.Certificate,
	signer *ecdsa.PrivateKey,
) (*ecdsa.PrivateKey, error) {
	key, err := writeKey(filepath.Join(a.dir, name+".key"))
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of %s: %w", name, err)
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().AddDate(0, 1, 0)
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of %s: %w", name, err)
	}
	return key, writePEM(filepath.Join(a.dir, name+".crt"), "CERTIFICATE", der)
}

// writeKey writes a new private key.
func writeKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", path, err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", path, err)
	}
	return key, writePEM(path, "EC PRIVATE KEY", der)
}

// serviceAccounts creates the keys that sign the tokens of service accounts, sa.key and sa.pub.
func serviceAccounts(dir string) error {
	key, err := writeKey(filepath.Join(dir, "sa.key"))
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return fmt.Errorf("make the key of service accounts: %w", err)
	}
	return writePEM(filepath.Join(dir, "sa.pub"), "PUBLIC KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	return nil
}

// writeKubeconfig writes NAME.kubeconfig for the client NAME of the authority, and returns its path. The file contains
// all certificates and keys.
func (a *authority) writeKubeconfig(dir, name, server string) (string, error) {
	var parts [3][]byte
	for i, file := range []string{"ca.crt", name + ".crt", name + ".key"} {
		var err error
		if parts[i], err = os.ReadFile(filepath.Join(a.dir, file)); err != nil {
			return "", fmt.Errorf("write a kubeconfig: %w", err)
		}
	}
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: test
clusters: [{name: test, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: test, user: {client-certificate-data: %s, client-key-data: %s}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
`, server, base64Of(parts[0]), base64Of(parts[1]), base64Of(parts[2]))
	path := filepath.Join(dir, name+".kubeconfig")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("write a kubeconfig: %w", err)
	}
	return path, nil
}
