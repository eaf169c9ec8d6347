package spelling

import (
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
	} {
		require.Equal(t, want, Nearest(word, keys), word)
	}
}
