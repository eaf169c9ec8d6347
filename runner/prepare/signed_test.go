package prepare

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/folder"
	"vmop/vmtypes/policy"
	"vmop/vmtypes/signature"
)

// lockOf returns a lock file with a signature for the type mine.
func lockOf(t *testing.T, by *signature.Signer, module string) string {
	t.Helper()
	manifest := mustJSON(t, map[string]any{"annotations": map[string]string{
		signature.TitleKey: "mine", signature.ModulesKey: signature.Checksums(map[string]string{"mine.star": module}),
	}})
	sum := sha256.Sum256([]byte(manifest))
	payload, err := signature.Payload("registry.example.org/types/mine", "sha256:"+hex.EncodeToString(sum[:]))
	require.NoError(t, err)
	signed, err := by.Sign(payload)
	require.NoError(t, err)
	p := signature.Proof{Manifest: manifest, Payload: string(payload), Signature: signed}
	return mustJSON(t, map[string]any{"types": []any{map[string]any{"name": "mine", "proof": p}}})
}

// With a policy that requires signatures, a VM only runs modules that were signed. The VM keeps the signature with its
// type, so a newer version in the folder doesn't matter.
func TestOnlySignedTypesRun(t *testing.T) {
	t.Parallel()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	signer, err := signature.ReadSigner(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	require.NoError(t, err)
	key := signer.Key().PEM()
	const module = "def launch(vm, host):\n    return part(executable = \"/usr/bin/qemu-system-x86_64\")\n"
	vm, types := hostileVM(t, module, false)
	limits, err := policy.Read("policy.yaml", []byte("directories: [/**]\nrules:\n  - types: ["+types+
		"]\n    programs: [stock]\n    unsandboxed: true\n    signedBy:\n      - "+mustJSON(t, key)+"\n"))
	require.NoError(t, err)
	opts := Options{VMTypes: types, Policy: limits}
	completes := func() error {
		t.Helper()
		vm, err = Open(vm.File)
		require.NoError(t, err)
		return vm.Complete(t.Context(), opts, false)
	}
	require.ErrorContains(t, completes(), "it is not signed; take it from its registry")
	const lock, newer = signature.LockFile, "# newer\n" + module
	folder.Fill(t, types, folder.Files{lock: lockOf(t, signer, newer)})
	require.ErrorContains(t, completes(), "module mine.star was added or changed after the type was signed")
	require.ErrorContains(t, completes(), "denied by policy.yaml:6")
	folder.Fill(t, types, folder.Files{lock: lockOf(t, signer, module)})
	require.NoError(t, completes())
	require.NoError(t, vm.Pin.Keep(vm.DataDir))

	folder.Fill(t, types, folder.Files{lock: lockOf(t, signer, newer), "mine.star": newer})
	require.NoError(t, completes(), "the copy in the data directory has its own signature")
	require.Contains(t, string(vm.Pin.Archive), module)
	require.NotContains(t, string(vm.Pin.Archive), "# newer")
	folder.Fill(t, vm.DataDir, folder.Files{pinnedType: archiveOf("# changed\n" + module)})
	require.ErrorContains(t, completes(), "was added or changed after the type was signed")
	folder.Fill(t, vm.DataDir, folder.Files{pinnedType: archiveOf(newer)})
	require.NoError(t, completes(), "the signature in the folder is for this version")
	require.False(t, vm.Pin.Kept, "so the copy gets it")
	folder.Fill(t, types, folder.Files{lock: "junk"})
	require.ErrorContains(t, completes(), "lock file")
}

func mustJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	return string(text)
}
