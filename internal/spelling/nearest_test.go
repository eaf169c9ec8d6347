package spelling

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	keys := []string{
		"maximumRam", "maximumCpus", "currentRam", "streamingVideo", "name", "net", "network", "uuid",
		"file",
	}
	for word, want := range map[string]string{
		"maximumRm":       "maximumRam",
		"maxmiumRam":      "maximumRam",
		"maximumram":      "maximumRam",
		"maximumCPUs":     "maximumCpus",
		"streaming-video": "streamingVideo",
		"nmae":            "name",
		"networks":        "network",
		"UUID":            "uuid",
		"flie":            "file",
		"template":        "",
		"x":               "",
		"":                "",
		"streamingVdoe":   "streamingVideo",
		"strmgVdo":        "",
		"nam e":           "name",
		"ent":             "net",
		"etn":             "",
		"maximum_ram":     "maximumRam",
	} {
		require.Equal(t, want, Nearest(word, keys), word)
	}
	require.Equal(t, "net", Nearest("net", []string{"nets", "net", "nett"}), "the same word")
	require.Equal(t, "abcd", Nearest("abce", []string{"abcd", "abcf"}), "the first of two")
	long := strings.Repeat("x", 64)
	require.Equal(t, long, Nearest(long, []string{long}))
	require.Empty(t, Nearest(long+"x", []string{long + "x"}))
}
