package decide

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUnknownFields(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"spec.vm.ram":                    "did you mean currentRam or maximumRam?",
		"spec.vm.maximumRm":              "did you mean maximumRam?",
		"spec.vm.drives":                 "did you mean disks?",
		"spec.memory":                    "did you mean spec.vm.currentRam or spec.vm.maximumRam?",
		"spec.vm.disks[0].cdRom":         "did you mean cdrom?",
		"spec.vm.disks[0].bootOrder":     "did you mean bootindex?",
		"spec.vm.networks[0].tap.brigde": "did you mean bridge?",
		"spec.running":                   "did you mean runPolicy?",
		"spec.cloudInit.metadata":        "did you mean metaData?",
		"metadata.label":                 "did you mean labels?",
		"knd":                            "did you mean kind?",
		"spec.vm.colour":                 "",
		"spec.nodeSelector.a":            "",
		"spec.no.such":                   "",
		"spec.vm.display.spice.generateSecret.false": "",
	} {
		paths, hints := UnknownFields(errors.New(`strict decoding error: unknown field "` + path + `"`))
		require.Equal(t, []string{path}, paths)
		require.Equal(t, []string{want}, hints, path)
	}
	for kind, want := range map[string]string{"VirtualMachine": "did you mean vmType?", "VirtualDisk": ""} {
		_, hints := UnknownFields(errors.New(kind + ` in version "v1" cannot be handled as a ` + kind +
			`: strict decoding error: unknown field "spec.os"`))
		require.Equal(t, []string{want}, hints)
	}
	paths, hints := UnknownFields(errors.New("is forbidden"))
	require.Empty(t, paths)
	require.Empty(t, hints)
	require.NotEmpty(t, fieldsBelow("spec.vm"))
}
