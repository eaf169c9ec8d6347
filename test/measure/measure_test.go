package measure

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProgram(t *testing.T) {
	t.Parallel()
	_, err := Program(filepath.Join(t.TempDir(), "vmrunner"))
	require.ErrorContains(t, err, "make build builds it")
	this, err := os.Executable()
	require.NoError(t, err)
	path, err := Program(this)
	require.NoError(t, err)
	require.Equal(t, this, path)
}

func TestWriteJSON(t *testing.T) {
	t.Parallel()
	require.NoError(t, WriteJSON("", 1))
	path := filepath.Join(t.TempDir(), "report.json")
	require.NoError(t, WriteJSON(path, map[string]int{"vms": 5}))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "{\n  \"vms\": 5\n}\n", string(text))
}

func TestTable(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	Table(&b, [][]string{{"VMs", "5"}, {"---", "---:"}, {"memory, MiB", "40.1"}})
	require.Equal(t, "| VMs         | 5    |\n| ---         | ---: |\n| memory, MiB | 40.1 |\n", b.String())
	require.NotEmpty(t, Load())
}
