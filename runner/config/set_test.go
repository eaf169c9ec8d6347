package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/internal/yamlfile"
)

const settable = `"/Runner":
  vm:
    name: x
    maximumCpus: 2
    display: &d
      outputs: 1
    drives:
    - file: /a.img
`

// Settings override the file's values in order.
func TestSettings(t *testing.T) {
	t.Parallel()
	cfg, _, err := Parse("vm.yaml", []byte(settable),
		"vm.maximumCpus=8", "vm.drives[0].file=/b.img", "vm.drives[1].file=/c.img", "vm.options.deep.er=[1, {a: b}]",
		"vm.display.spice.port=5901", "vm.network=[]", "vm.name=y=z", "vm.maximumCpus=4", "vmType=mine",
		"vm.useTpm=true", "vm.maximumRam=2Gi")
	require.NoError(t, err)
	require.Equal(t, 4, cfg.VM.MaximumCPUs)
	require.Equal(t, "/b.img", cfg.VM.Drives[0].File)
	require.Equal(t, "/c.img", cfg.VM.Drives[1].File)
	require.Equal(t, map[string]any{"deep": map[string]any{"er": []any{int64(1), map[string]any{"a": "b"}}}},
		cfg.VM.Options)
	require.Equal(t, 5901, cfg.VM.Display.Spice.Port)
	require.Equal(t, "y=z", cfg.VM.Name)
	require.Equal(t, "mine", cfg.VMType)
	require.NotNil(t, cfg.VM.Network)
	require.Empty(t, cfg.VM.Network)
	cfg, _, err = Parse("vm.yaml", []byte(settable), "vm.display=", "vm.maximumCpus=")
	require.NoError(t, err)
	require.Nil(t, cfg.VM.Display)
	require.Equal(t, 0, cfg.VM.MaximumCPUs)
}

// An error in a setting is reported with its position in the setting, and an error in the file with its position in the
// file.
func TestWrongSettings(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]string{
		"vm.maximumCpus":        "--set:1:1: must be path=value (for example vm.maximumCpus=8)",
		"vm.maximumCpus=many":   `--set:1:16: vm.maximumCpus: must be a whole number, not the text "many"`,
		"vm.maximunCpus=8":      "--set:1:4: vm.maximunCpus: unknown key (did you mean maximumCpus?)",
		"vm.maximumCpus=0":      "--set:1:16: vm.maximumCpus: can't be 0 (at least 1; without the key its default is used)",
		"vm.drives[2].file=/x":  "--set:1:10: the list has 1 items, so [2] is too far (the next is [1])",
		"vm.drives[x].file=/x":  "--set:1:10: [x] is not an index (for example vm.drives[0].file=/x.img)",
		"vm.drives.file=/x":     "--set:1:11: there is a list here, which has no key file",
		"vm.name.first=x":       `--set:1:9: there is the text "x" here, which has no key first`,
		"vm[0]=x":               "--set:1:3: there is a mapping here, which has no items",
		"vm..name=x":            "--set:1:4: a key is missing in the path (for example vm.display.spice.port=5900)",
		"vm.name=[":             "--set:1:9: did not find expected node content",
		"vm.network={type: tip": "--set:1:12: the braces {…} are not closed",
		"vm.currentCpus=3":      "--set:1:16: vm.currentCpus: ",
	} {
		_, _, err := Parse("vm.yaml", []byte(settable), setting)
		var faults yamlfile.Faults
		require.ErrorAs(t, err, &faults, setting)
		require.Contains(t, faults[0].Error(), want)
		require.Equal(t, setting, faults[0].Source)
	}
	_, _, err := Parse("vm.yaml", []byte(settable+"    other: 1\n"), "vm.maximumCpus=8")
	require.ErrorContains(t, err, "vm.yaml:9:5: vm.other: unknown key")
}
