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
		case "/there", "/both":
			return 0, nil
		case "/folder":
			return fs.ModeDir, nil
		case "/dev/null":
			return fs.ModeDevice | fs.ModeCharDevice, nil
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
			{File: "/vm/~/gone", Type: DriveRaw, Format: "raw"},
			{File: "/gone", Type: DriveRaw, Format: "raw"},
			{File: "/folder"},
			{File: "/dev/null"},
			{File: "/both", Type: DriveRaw},
			{File: "/both", Type: DriveRaw},
			{File: "/both", Type: DriveRaw, ReadOnly: true},
			{File: "/folder/new", Type: DriveRaw, Format: "raw", Size: 1},
			{File: "/no-folder/new", Type: DriveRaw, Format: "raw", Size: 1},
			{File: "/vm/~/new", Type: DriveRaw, Format: "raw", Size: 1},
		},
		Kernel:        &Kernel{Image: "/there", Initrd: "/no-initrd"},
		SerialConsole: &SerialConsole{Log: "/no-folder/log"},
	}, stat)
	var got []string
	for _, f := range faults {
		got = append(got, f.String())
	}
	require.Equal(t, []string{
		`vm.drives[1].file: "/gone" does not exist`,
		`vm.drives[2].device: "/dev/gone" does not exist`,
		`vm.drives[5].file: "/forbidden": permission denied`,
		`vm.drives[6].file: "/vm/~/gone" does not exist (~ has no meaning here; write the whole path)`,
		`vm.drives[7].file: "/gone" does not exist (with size, such as size: 20 GiB, it is created)`,
		`vm.drives[8].file: "/folder" is a directory (use a file in it)`,
		`vm.drives[9].file: "/dev/null" is a device that holds no data (use a file or a block device)`,
		`vm.drives[11].file: "/both" is vm.drives[10].file, too (each disk that the guest writes to needs a separate image)`,
		`vm.drives[14].file: the directory "/no-folder" does not exist (create it)`,
		`vm.drives[15].file: the directory "/vm/~" does not exist (~ has no meaning here; write the whole path)`,
		`vm.kernel.initrd: "/no-initrd" does not exist`,
		`vm.serialConsole.log: the directory "/no-folder" does not exist (create it)`,
	}, got)
	require.Empty(t, MissingFiles(Spec{}, stat))
}
