package main

import (
	"crypto/ed25519"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/ssh"

	"vmop/vmtypes/signature"
)

// signingKey signs releases.
type signingKey struct {
	private ed25519.PrivateKey
	public  ssh.PublicKey
}

// readKey reads SIGNING_KEY: a private key, of OpenSSH or PKCS#8 in PEM, or the name of its file. It returns nil for
// "". Errors don't contain the value, which might be a damaged key.
func readKey(value string) (*signingKey, error) {
	text, err := readKeyText("SIGNING_KEY", value)
	if text == nil || err != nil {
		return nil, err
	}
	parsed, err := ssh.ParseRawPrivateKey(text)
	if _, locked := errors.AsType[*ssh.PassphraseMissingError](err); locked {
		return nil, errors.New("cannot use SIGNING_KEY: the key has a passphrase; remove it with ssh-keygen -p")
	}
	var private ed25519.PrivateKey
	switch k := parsed.(type) {
	case *ed25519.PrivateKey:
		private = *k
	case ed25519.PrivateKey:
		private = k
	default:
		return nil, errors.New("cannot use SIGNING_KEY: it is not an Ed25519 private key; " +
			"create one with ssh-keygen -t ed25519")
	}
	public, err := ssh.NewPublicKey(private.Public())
	if err != nil {
		return nil, fmt.Errorf("cannot use SIGNING_KEY: %w", err)
	}
	return &signingKey{private, public}, nil
}

// readKeyText returns the text of the key in a variable, which contains the key or names its file. It returns nil for
// "".
func readKeyText(variable, value string) ([]byte, error) {
	switch {
	case value == "":
		return nil, nil
	case strings.Contains(value, "-----BEGIN"):
		return []byte(value), nil
	}
	text, err := os.ReadFile(value)
	if broken, ok := errors.AsType[*fs.PathError](err); ok {
		err = fmt.Errorf("cannot read the file that %s names: %w; set it to a file or to a key", variable, broken.Err)
	}
	return text, err
}

func (k *signingKey) keyFingerprint() string { return ssh.FingerprintSHA256(k.public) }

// The signer and the purpose that ssh-keygen compares.
const (
	identity  = "vmop"
	namespace = "vmop-release"
)

// allowedSigners returns the public key as a file for ssh-keygen -Y verify.
func (k *signingKey) allowedSigners() []byte {
	return fmt.Appendf(nil, "%s namespaces=%q %s", identity, namespace, ssh.MarshalAuthorizedKey(k.public))
}

// publicPEM returns the public key as PEM.
func (k *signingKey) publicPEM() ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(k.private.Public())
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), err
}

// sshSignature signs a message as ssh-keygen -Y sign does, see OpenSSH's PROTOCOL.sshsig.
func (k *signingKey) sshSignature(message []byte) []byte {
	const magic, hash = "SSHSIG", "sha512"
	sum := sha512.Sum512(message)
	signed := append([]byte(magic), ssh.Marshal(struct {
		Namespace, Reserved, Hash string
		Sum                       []byte
	}{namespace, "", hash, sum[:]})...)
	blob := append([]byte(magic), ssh.Marshal(struct {
		Version                   uint32
		Key                       []byte
		Namespace, Reserved, Hash string
		Signature                 []byte
	}{
		1, k.public.Marshal(), namespace, "", hash,
		ssh.Marshal(ssh.Signature{Format: k.public.Type(), Blob: ed25519.Sign(k.private, signed)}),
	})...)
	return pem.EncodeToMemory(&pem.Block{Type: "SSH SIGNATURE", Bytes: blob})
}

// dsse is a signed envelope, see https://github.com/secure-systems-lab/dsse.
type dsse struct {
	PayloadType string          `json:"payloadType"`
	Payload     []byte          `json:"payload"`
	Signatures  []dsseSignature `json:"signatures"`
}

type dsseSignature struct {
	KeyID string `json:"keyid"`
	Sig   []byte `json:"sig"`
}

// signEnvelope signs an in-toto statement.
func (k *signingKey) signEnvelope(payload []byte) dsse {
	const kind = "application/vnd.in-toto+json"
	signed := fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(kind), kind, len(payload), payload)
	return dsse{kind, payload, []dsseSignature{{k.keyFingerprint(), ed25519.Sign(k.private, signed)}}}
}

// signImages writes the public key and a signature for each image and index into a folder.
func (k *signingKey) signImages(dir string, b build, images []image) error {
	public, err := k.publicPEM()
	err = errors.Join(err, writeFile(dir, publicKey, public), writeFile(dir, signers, k.allowedSigners()))
	for _, i := range images {
		archive, failed := k.imageSignature(b, i)
		err = errors.Join(err, failed, writeFile(dir, b.imageFile(i)+imageSig, archive))
	}
	return err
}

// imageSignature returns the signature of an image or index in the format that cosign stores in a registry: an image
// with the tag sha256-DIGEST.sig. Its layer is the signed text. The result is an OCI archive.
func (k *signingKey) imageSignature(b build, i image) ([]byte, error) {
	payload, err := signature.Payload(b.imageReference(i), "sha256:"+i.digest)
	if err != nil {
		return nil, err
	}
	a := b.newArchive()
	layer := a.addBlob(signature.PayloadType, payload)
	layer.Annotations = map[string]string{
		signature.SignatureKey: base64.StdEncoding.EncodeToString(ed25519.Sign(k.private, payload)),
	}
	config := a.addJSON(types.OCIConfigJSON, v1.ConfigFile{
		RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{layer.Digest}},
	})
	return a.closeWith(a.addJSON(types.OCIManifestSchema1, v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: config, Layers: []v1.Descriptor{layer},
	}))
}
