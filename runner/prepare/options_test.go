package prepare

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const secretType = `
options = {
    "key": attr.file(secret = True),
    "text": attr.string(default = "", deprecated = "use key"),
}

def launch(vm, host):
    return part(executable = "/bin/qemu", options = [
        option("-smbios", None, {"type": 3, "asset": "a" + vm.options.text}),
        option("-object", "secret", {"id": "key", "file": vm.options.key or "/none"}),
    ])
`

// planFor returns the VM for options in YAML, in a folder with a file key that contains a secret.
func planFor(t *testing.T, options string) (*VM, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"types/mine.star": secretType, "key": "open-sesame\n",
		"my.yaml": "\"/Runner\":\n  vmType: mine\n  dataDir: data\n  vm:\n    name: mine\n    network: []\n    options:\n" + options,
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return Plan(t.Context(), Options{ConfigFile: filepath.Join(dir, "my.yaml"), VMTypes: filepath.Join(dir, "types")})
}

// A plan with the content of a file that is declared as a secret is refused, with the line of the module and without
// the secret.
func TestPlanMustNotContainASecret(t *testing.T) {
	t.Parallel()
	_, err := planFor(t, "      key: key\n")
	require.NoError(t, err)
	_, err = planFor(t, "      text: open-sesame\n")
	require.NoError(t, err, "it is a secret only if an option names its file")
	vm, err := planFor(t, "      key: key\n      text: open-sesame\n")
	require.NotContains(t, vm.Plan.Why(), "sesame", "vmrunner plan shows it nevertheless")
	require.ErrorContains(t, err, "contains the secret of vm.options.key")
	require.ErrorContains(t, err, "mine.star:9")
	require.NotContains(t, err.Error(), "sesame")
}

// A user who sets the secret itself, instead of a file's name, doesn't find it in messages.
func TestMissingSecretIsNotQuoted(t *testing.T) {
	t.Parallel()
	vm, err := planFor(t, "      key: open-sesame\n")
	require.NoError(t, err)
	faults, err := vm.StartFaults()
	require.NoError(t, err)
	located := vm.Config.Locate(faults)
	require.ErrorContains(t, located, "my.yaml:8:12: vm.options.key: there is no such file")
	require.NotContains(t, located.Error(), "sesame")
}

// Warnings about options have a place in the user's file.
func TestOptionWarningsHaveAPlace(t *testing.T) {
	t.Parallel()
	vm, err := planFor(t, "      text: a\n")
	require.NoError(t, err)
	require.Len(t, vm.OptionWarnings(), 1)
	require.Contains(t, vm.OptionWarnings()[0], "my.yaml:8:7: vm.options.text: is deprecated: use key")
}
