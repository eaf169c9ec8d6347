package signature_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmtypes/signature"
)

// privateKeys returns a private key of each usable kind, as PEM.
func privateKeys(t *testing.T) map[string][]byte {
	t.Helper()
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	all := map[string][]byte{}
	for name, key := range map[string]crypto.PrivateKey{"ed25519": ed, "ecdsa": ec, "rsa": large} {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		require.NoError(t, err)
		all[name] = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	}
	return all
}

// manifest returns the manifest of a type with modules.
func manifest(t *testing.T, name string, modules map[string]string) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"annotations": map[string]string{
		signature.TitleKey: name, signature.ModulesKey: signature.Checksums(modules),
	}})
	require.NoError(t, err)
	return string(text)
}

// sign returns the proof that a key has signed a manifest.
func sign(t *testing.T, by *signature.Signer, manifest string) signature.Proof {
	t.Helper()
	sum := sha256.Sum256([]byte(manifest))
	payload, err := signature.Payload("registry.example.org/types/asset", "sha256:"+hex.EncodeToString(sum[:]))
	require.NoError(t, err)
	signed, err := by.Sign(payload)
	require.NoError(t, err)
	return signature.Proof{Manifest: manifest, Payload: string(payload), Signature: signed}
}

// Every kind of key signs and verifies, and openssl accepts the signatures.
func TestKeys(t *testing.T) {
	t.Parallel()
	other, err := signature.ReadSigner(privateKeys(t)["ed25519"])
	require.NoError(t, err)
	for name, text := range privateKeys(t) {
		signer, err := signature.ReadSigner(text)
		require.NoError(t, err, name)
		p := sign(t, signer, manifest(t, "asset", nil))
		public := signer.Key().PEM()
		key, err := signature.ReadKey([]byte(public))
		require.NoError(t, err, name)
		got, err := p.Signer([]signature.Key{other.Key(), key})
		require.NoError(t, err, name)
		require.Equal(t, signer.Key().Fingerprint(), got.Fingerprint())
		require.NotEqual(t, other.Key().Fingerprint(), got.Fingerprint())
		_, err = p.Signer([]signature.Key{other.Key()})
		require.EqualError(t, err, "it is not signed with a trusted key", name)
		verifyByOpenSSL(t, public, p)
	}
}

// verifyByOpenSSL requires that openssl accepts a signature, and refuses it for another text.
func verifyByOpenSSL(t *testing.T, public string, p signature.Proof) {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, text, 0o600))
		return path
	}
	key, signed := write("key.pem", []byte(public)), write("signature", p.Signature)
	verify := func(text []byte) error {
		args := []string{"pkeyutl", "-verify", "-pubin", "-inkey", key, "-sigfile", signed, "-rawin", "-in"}
		args = append(args, write("text", text))
		if len(p.Signature) != ed25519.SignatureSize {
			args = append(args, "-digest", "sha256")
		}
		return exec.CommandContext(t.Context(), "openssl", args...).Run()
	}
	require.NoError(t, verify([]byte(p.Payload)))
	require.Error(t, verify([]byte(p.Payload+" ")))
}

// A proof is for one type with the modules that were signed.
func TestWhatAProofCovers(t *testing.T) {
	t.Parallel()
	signer, err := signature.ReadSigner(privateKeys(t)["ed25519"])
	require.NoError(t, err)
	modules := map[string]string{"asset.star": "a\n", "parts.star": "b\n"}
	p := sign(t, signer, manifest(t, "asset", modules))
	require.NoError(t, p.Covers("asset", modules))
	require.NoError(t, p.Covers("asset", map[string]string{"asset.star": "a\n"}), "the type can load fewer modules")
	require.ErrorContains(t, p.Covers("other", modules), "for something else")
	for _, changed := range []map[string]string{{"asset.star": "b\n"}, {"asset.star": "a\n", "more.star": ""}} {
		require.ErrorContains(t, p.Covers("asset", changed), "after the type was signed")
	}
	require.ErrorContains(t, sign(t, signer, manifest(t, "asset", nil)).Covers("asset", modules), "push it again")

	// A signature of another manifest, or of another kind of text.
	p.Manifest = manifest(t, "asset", map[string]string{"asset.star": "evil\n"})
	_, err = p.Signer([]signature.Key{signer.Key()})
	require.ErrorContains(t, err, "for something else")
	p.Payload = `{"critical":{"image":{"docker-manifest-digest":"sha256:x"},"type":"other"}}`
	p.Signature, err = signer.Sign([]byte(p.Payload))
	require.NoError(t, err)
	_, err = p.Signer([]signature.Key{signer.Key()})
	require.ErrorContains(t, err, "for something else")
}

func TestUnusableKeys(t *testing.T) {
	t.Parallel()
	encode := func(kind string, der []byte, err error) string {
		require.NoError(t, err)
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalPKIXPublicKey(p384.Public())
	curve := encode("PUBLIC KEY", der, err)
	private := privateKeys(t)
	signer, err := signature.ReadSigner(private["ed25519"])
	require.NoError(t, err)
	public := signer.Key().PEM()
	for text, want := range map[string]string{
		curve: "curve P-256", public + public: "more than one key", string(private["rsa"]): "has a PRIVATE KEY",
		"": "is not PEM", "-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----\n": "is not a public key",
	} {
		_, err := signature.ReadKey([]byte(text))
		require.ErrorContains(t, err, want)
	}
	der, err = x509.MarshalPKCS8PrivateKey(p384)
	_, err = signature.ReadSigner([]byte(encode("PRIVATE KEY", der, err)))
	require.ErrorContains(t, err, "curve P-256")
	for text, want := range map[string]string{
		"-----BEGIN PRIVATE KEY-----\nsecret\n":                         "is not a private key in PEM; create one",
		encode("PRIVATE KEY", []byte("secret"), nil):                    "is not a private key; create one",
		encode("OPENSSH PRIVATE KEY", []byte("secret"), nil):            "has a OPENSSH PRIVATE KEY, not a PRIVATE KEY",
		encode("ENCRYPTED SIGSTORE PRIVATE KEY", []byte("secret"), nil): "a key with a passphrase",
	} {
		_, err = signature.ReadSigner([]byte(text))
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "secret")
	}
}
