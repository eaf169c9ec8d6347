package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tests that tables of claims name are there.
func TestNamedTestsAreThere(t *testing.T) {
	t.Parallel()
	there := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(|^\t+\{"([A-Z]\w+)", \w+\},$`) // and scenarios of test/e2e
	require.NoError(t, filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, names := range declared.FindAllSubmatch(text, -1) {
			there[string(names[1])+string(names[2])] = true
		}
		return err
	}))
	for _, table := range []struct {
		file, section string
		column, least int
	}{
		{"security.md", "What each could do to others", 3, 20}, {"coming-from.md", "VM-Operator", 4, 30},
	} {
		claims, named := 0, regexp.MustCompile("`(Test\\w+|[A-Z][a-z]\\w+)`")
		for line := range strings.Lines(section(t, table.file, table.section)) {
			cells := strings.Split(line, "|")
			if len(cells) != 6 {
				continue
			}
			for _, name := range named.FindAllStringSubmatch(cells[table.column], -1) {
				claims++
				require.True(t, there[name[1]], "no test is called %s", name[1])
			}
		}
		require.Greater(t, claims, table.least)
	}
}
