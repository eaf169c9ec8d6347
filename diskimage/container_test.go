package diskimage

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Image formats of qemu-img are detected by their headers. A raw disk may begin with anything that its guest writes,
// such as a LUKS header or a tar archive.
func TestContainersAreKnownByTheirHeaders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, format := range []string{"qcow2", "vmdk", "vhdx", "vdi", "vpc", "qed", "parallels"} {
		file := filepath.Join(dir, format)
		create := exec.CommandContext(t.Context(), "qemu-img", "create", "-q", "-f", format, file, "8M")
		out, err := create.CombinedOutput()
		require.NoError(t, err, "%s", out)
		found, err := Container(file)
		require.NoError(t, err)
		require.NotEmpty(t, found, format)
	}
	tar := make([]byte, 1024)
	copy(tar[tarMagicAt:], "ustar")
	for name, content := range map[string][]byte{
		"luks": []byte("LUKS\xba\xbe\x00\x01"), "tar": tar, "empty": nil, "short": []byte("QF"),
		"blank": make([]byte, 1<<20),
	} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, content, 0o600))
		found, err := Container(file)
		require.NoError(t, err)
		require.Empty(t, found, name)
	}
	found, err := Container(dir)
	require.NoError(t, err)
	require.Empty(t, found)
	_, err = Container(filepath.Join(dir, "nowhere"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
