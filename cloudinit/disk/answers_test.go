package disk

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/cloudinit"
)

// The image contains the answer files under the names that Windows Setup looks for. Both mtools and Windows ignore
// case.
func TestAnswerFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sysprep.img")
	files := []cloudinit.File{
		{Name: "Autounattend.xml", Content: []byte("<unattend/>\n")},
		{Name: "Unattend.xml", Content: bytesOf(300<<10, 1)},
	}
	require.NoError(t, WriteAnswers(path, files))
	requireSound(t, path, "answer files")
	for name, content := range map[string][]byte{
		"autounattend.xml": files[0].Content, "UNATTEND.XML": files[1].Content,
	} {
		got, err := exec.Command(tool(t, "mtype", "mtools"), "-i", path, "::"+name).Output()
		require.NoError(t, err, name)
		require.True(t, bytes.Equal(content, got), name)
	}
	label, err := exec.Command(tool(t, "mlabel", "mtools"), "-s", "-i", path, "::").Output()
	require.NoError(t, err)
	require.Contains(t, string(label), "UNATTEND")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	large := []cloudinit.File{{Name: "a", Content: make([]byte, cloudinit.MaxData+1)}}
	require.ErrorContains(t, WriteAnswers(path, large),
		"create the image with the answer files: "+path+": the data are 67108865 bytes long")
}
