package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/measure"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	require.InDelta(t, 3, medianOf([]float64{9, 1, 3}), 0)
	require.InDelta(t, 2, medianOf([]float64{9, 1, 3, 1}), 0)
	require.InDelta(t, 7, medianOf([]float64{7}), 0)
}

// The candidates take turns, each round in the opposite order, and the first round is not counted.
func TestInterleave(t *testing.T) {
	t.Parallel()
	var order string
	count := func(name string, first float64) candidate {
		return candidate{name: name, once: func() (map[string]float64, error) {
			order += name
			first++
			return map[string]float64{"n": first}, nil
		}}
	}
	candidates := []candidate{count("a", 0), count("b", 10), {name: "c", peer: "a", skipped: "not here"}}
	candidates[1].peer = "a"
	b := &bench{ctx: t.Context(), rounds: 3}
	all, err := b.interleaveCandidates(candidates)
	require.NoError(t, err)
	require.Equal(t, "abbaabba", order)
	require.Equal(t, samples{"a": {"n": {2, 3, 4}}, "b": {"n": {12, 13, 14}}}, all)

	list := all.compareCandidates(candidates, "n", "ms")
	require.Len(t, list, 3)
	require.Zero(t, list[0].Ratio)
	require.InDelta(t, 13.0/3, list[1].Ratio, 1e-9)
	require.Equal(t, "a", list[1].RatioTo)
	require.Equal(t, result{Name: "c", Unit: "ms", Skipped: "not here"}, list[2])
	require.Empty(t, all.compareCandidates(candidates[:2], "what none has measured", "ms"))
}

func TestInterleaveEnds(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	b := &bench{ctx: t.Context(), rounds: 3}
	_, err := b.interleaveCandidates([]candidate{{
		name: "a",
		once: func() (map[string]float64, error) { return nil, broken },
	}})
	require.ErrorIs(t, err, broken)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b.ctx = ctx
	_, err = b.interleaveCandidates([]candidate{{name: "a"}})
	require.ErrorIs(t, err, context.Canceled)
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]result{
		"met":    {Samples: []float64{1, 2, 3}, Goal: 2},
		"missed": {Samples: []float64{1, 3, 3}, Goal: 2},
		"":       {Samples: []float64{1}},
	} {
		require.Equal(t, want, r.verdictText())
	}
	require.Equal(t, "met", result{Samples: []float64{5}, Ratio: 1.1, GoalRatio: 1.1}.verdictText())
	require.Equal(t, "missed", result{Samples: []float64{5}, Ratio: 1.2, GoalRatio: 1.1}.verdictText())
	require.Empty(t, result{Skipped: "not here", Goal: 1}.verdictText())
}

func TestTable(t *testing.T) {
	t.Parallel()
	r := report{
		Machine: machine{
			Date: "2026-01-01", CPU: "Model", CPUs: 2, Memory: "1 kB", Kernel: "6",
			Versions: []version{{"a", "1"}, {"b", ""}},
		},
		Rounds: 3, LoadBefore: "0.10", LoadAfter: "0.20",
		Results: []result{
			{Section: "S", Name: "ours", Unit: "ms", Samples: []float64{1.234, 2, 123.4}, Goal: 2},
			{Section: "S", Name: "theirs", Unit: "ms", Samples: []float64{12.34}, Ratio: 1.5, RatioTo: "ours"},
			{Section: "T", Name: "absent", Skipped: "install it"},
		},
	}
	require.Equal(t, `date      2026-01-01
machine   2 x Model, 1 kB, Linux 6
versions  a 1, b not installed
load      0.10 before, 0.20 after; 3 rounds

|        | median              | least | ratio  | to   | goal    |     |
| ---    | ---:                | ---:  | ---:   | ---  | ---     | --- |
| **S**  |                     |       |        |      |         |     |
| ours   | 2 ms                | 1.23  |        |      | <= 2 ms | met |
| theirs | 12.3 ms             |       | 1.50 x | ours |         |     |
| **T**  |                     |       |        |      |         |     |
| absent | skipped: install it |       |        |      |         |     |
`, r.markdownTable())

	file := filepath.Join(t.TempDir(), "r.json")
	require.NoError(t, measure.WriteJSON(file, r))
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var back report
	require.NoError(t, json.Unmarshal(b, &back))
	require.Equal(t, r, back)
}

func TestReadOutputs(t *testing.T) {
	t.Parallel()
	require.Equal(t, "7.2.22", findVersion("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg)\nCopyright 2003"))
	require.Equal(t, "12.2.0", findVersion("cc (Debian 12.2.0-14) 12.2.0"))
	require.Empty(t, findVersion("no idea"))

	millis, bytes := initTrace(
		"init os @0.37 ms, 0.5 ms clock, 432 bytes, 9 allocs\nvmrunner 1\ninit a/b%2ec @1.0 ms, 0.25 ms clock, 8 " +
			"bytes, 1 allocs\n")
	require.InDelta(t, 0.75, millis, 1e-9)
	require.InDelta(t, 440, bytes, 0)

	rollup := "55d0-7ffc ---p 0 00:00 0 [rollup]\nRss:  9000 kB\nPss:  500 kB\n"
	require.InDelta(t, 9.216, rollupMegabytes(rollup, "Rss"), 1e-9)
	require.Zero(t, rollupMegabytes(rollup, "Swap"))
}

// Descriptors have the numbers that the driver assigns.
func TestArgv(t *testing.T) {
	t.Parallel()
	var l launch
	require.NoError(t, json.Unmarshal([]byte(`{"helpers": [{"executable": "/bin/swtpm", "args": [
		{"words": ["socket"]}, {"words": ["--ctrl", "type=unixio,fd=<swtpm>,x=y"]}]}]}`), &l))
	require.Equal(t, []string{"/bin/swtpm", "socket", "--ctrl", "type=unixio,fd=3,x=y"}, l.Helpers[0].commandLine())
}
