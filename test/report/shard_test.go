package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every package is in one shard, and the shards take about the same time.
func TestShards(t *testing.T) {
	t.Parallel()
	known, err := readSeconds("# seconds, package, test\n90 b\n50 c\n80 d TestX\n10 d TestY\n")
	require.NoError(t, err)
	shards := dealUnits(unitsOf([]string{"a", "b", "c", "d"}, known), 2)
	require.Equal(t, [][]unit{
		{{"d", "TestX", 80}, {"a", "", defaultSeconds}},
		{{"b", "", 90}, {"c", "", 50}, {"d", "TestY", 10}},
	}, shards)
	require.Equal(t, [][]string{{"-v", "b", "c"}, {"-v", "-run=^TestY$", "d"}},
		batchArguments(shards[1], []string{"-v"}))
}

func TestShardNames(t *testing.T) {
	t.Parallel()
	i, n, err := readShard("2/4")
	require.NoError(t, err)
	require.Equal(t, []int{2, 4}, []int{i, n})
	for _, wrong := range []string{"", "4", "0/4", "5/4", "a/4", "1/b"} {
		_, _, err := readShard(wrong)
		require.ErrorContains(t, err, "must be I/N with I from 1 to N", wrong)
	}
}

// A divided package lists all of its tests, because an unlisted test would run in no shard.
func TestDividedPackagesNameAllTests(t *testing.T) {
	t.Parallel()
	known, err := readSeconds(secondsList)
	require.NoError(t, err)
	declared, named := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`), map[string][]string{}
	for _, u := range known {
		if u.test != "" {
			named[u.pkg] = append(named[u.pkg], u.test)
		}
	}
	require.NotEmpty(t, named)
	for pkg, tests := range named {
		files, err := filepath.Glob("../../" + strings.TrimPrefix(pkg, "vmop/") + "/*_test.go")
		require.NoError(t, err)
		var written []string
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			if strings.HasPrefix(string(text), "//go:build") {
				continue
			}
			for _, match := range declared.FindAllStringSubmatch(string(text), -1) {
				written = append(written, match[1])
			}
		}
		slices.Sort(written)
		slices.Sort(tests)
		require.Equal(t, written, tests, pkg)
	}
}
