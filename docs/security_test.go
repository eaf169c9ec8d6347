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

// Every test in the last column of a table of claims exists.
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
		section       string
		column, least int
	}{
		{"Security", 2, 20}, {"Networks", 2, 6}, {"Features of VM-Operator", 2, 30},
	} {
		claims, named := 0, regexp.MustCompile("`(Test\\w+|[A-Z][a-z]\\w+)`")
		for line := range strings.Lines(section(t, "reference/claims.md", table.section)) {
			cells := strings.Split(line, "|")
			if len(cells) != table.column+2 {
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
