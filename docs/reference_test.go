package docs_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/reference"
)

// The descriptions of configuration keys have one source, configuration.md. Editors, schemas and the reference use
// them.
func TestMeaningsAreThoseOfTheConfiguration(t *testing.T) {
	t.Parallel()
	const file = "../authoring/reference/meanings.txt"
	tables := rows(t, "reference/configuration.md")
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(tables)) {
		cells := tables[key]
		require.Len(t, cells, 5, key)
		fmt.Fprintf(&b, "%s: %s\n", key, cells[4])
	}
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
	}
	require.Equal(t, b.String(), read(t, file), "make generate writes it anew")
}

func TestReferenceIsCurrent(t *testing.T) {
	t.Parallel()
	const page = "vm-types/reference.md"
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(reference.Page()), 0o644))
	}
	require.Equal(t, reference.Page(), read(t, page), "make generate writes it anew")
}
