package vmspec

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMissingFilesAreNamedBeforeQEMUStumblesOverThem(t *testing.T) {
	t.Parallel()
	stat := func(path string) (fs.FileMode, error) {
		switch path {
		case "/there":
			return 0, nil
		case "/forbidden":
			return 0, fs.ErrPermission
		}
		return 0, fs.ErrNotExist
	}
	faults := MissingFiles(Spec{
		Drives: []Drive{
			{File: "/there"},
			{File: "/gone"},
			{Device: "/dev/gone"},
			{Type: DriveIDECD},
			{Type: DriveIDECD, File: "https://host/cd.iso"},
			{File: "/forbidden"},
		},
		Kernel: &Kernel{Image: "/there", Initrd: "/no-initrd"},
	}, stat)
	var got []string
	for _, f := range faults {
		got = append(got, f.String())
	}
	require.Equal(t, []string{
		`vm.drives[1].file: "/gone" does not exist`,
		`vm.drives[2].device: "/dev/gone" does not exist`,
		`vm.drives[5].file: "/forbidden": permission denied`,
		`vm.kernel.initrd: "/no-initrd" does not exist`,
	}, got)
	require.Empty(t, MissingFiles(Spec{}, stat))
}
