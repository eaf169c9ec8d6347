package versions_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmtypes/artifact/versions"
)

func TestCut(t *testing.T) {
	t.Parallel()
	for reference, want := range map[string][2]string{
		"registry.example.org/types/asset:^1.2":     {"registry.example.org/types/asset", "^1.2"},
		"registry.example.org:5000/types/asset:~1":  {"registry.example.org:5000/types/asset", "~1"},
		"localhost:5000/asset:>=1.2,<1.5":           {"localhost:5000/asset", ">=1.2,<1.5"},
		"registry.example.org:5000/types/asset:1.2": {"registry.example.org:5000/types/asset:1.2", ""},
		"registry.example.org:5000/types/asset":     {"registry.example.org:5000/types/asset", ""},
		"registry.example.org/asset@sha256:0123":    {"registry.example.org/asset@sha256:0123", ""},
		"asset:":                                    {"asset:", ""},
		"":                                          {"", ""},
	} {
		repository, rng := versions.Cut(reference)
		require.Equal(t, want, [2]string{repository, rng}, reference)
	}
}

func TestNewest(t *testing.T) {
	t.Parallel()
	tags := []string{"latest", "1.9.0", "v1.10.0", "1.11.0-rc.1", "2.0.0", "0.3.1", "0.4.0", "sha256-00.sig"}
	for rng, want := range map[string]string{
		"^1.2": "v1.10.0", "~1.9": "1.9.0", ">=1": "2.0.0", ">=1,<2": "v1.10.0", "^0.3": "0.3.1", "=2": "2.0.0",
		"^1.11.0-rc": "1.11.0-rc.1",
	} {
		tag, err := versions.Newest(tags, rng)
		require.NoError(t, err)
		require.Equal(t, want, tag, rng)
	}
	_, err := versions.Newest(tags, "^3")
	require.EqualError(t, err, "the range ^3 contains no tag; the repository has 6 versions")
	_, err = versions.Newest([]string{"latest"}, "^3")
	require.ErrorContains(t, err, "no tag is a version")
	_, err = versions.Newest(tags, "^one")
	require.ErrorContains(t, err, `"^one" is not a range of versions`)
	require.NoError(t, versions.Check("^1"))
}
