package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReport(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		events  string
		want    string
		counts  counts
		wrecked []string
		summary string
	}{
		{
			name: "what passed says nothing but the package's line",
			events: `{"Action":"run","Package":"a","Test":"TestX"}
				{"Action":"output","Package":"a","Test":"TestX","Output":"=== RUN   TestX\n"}
				{"Action":"output","Package":"a","Test":"TestX","Output":"    x_test.go:1: noise\n"}
				{"Action":"pass","Package":"a","Test":"TestX"}
				{"Action":"output","Package":"a","Output":"PASS\n"}
				{"Action":"output","Package":"a","Output":"ok  \ta\t0.1s\n"}
				{"Action":"pass","Package":"a"}`,
			want:   "ok  \ta\t0.1s\n",
			counts: counts{passed: 1},
		},
		{
			name: "what failed or was skipped says why, though packages run side by side",
			events: `{"Action":"output","Package":"a","Test":"TestX","Output":"    x_test.go:1: wrong\n"}
				{"Action":"output","Package":"b","Test":"TestX","Output":"    y_test.go:1: no swtpm\n"}
				{"Action":"output","Package":"a","Test":"TestX","Output":"--- FAIL: TestX (0.00s)\n"}
				{"Action":"fail","Package":"a","Test":"TestX"}
				{"Action":"skip","Package":"b","Test":"TestX"}
				{"Action":"output","Package":"a","Output":"FAIL\n"}
				{"Action":"output","Package":"a","Output":"FAIL\ta\t0.1s\n"}
				{"Action":"fail","Package":"a"}
				{"Action":"output","Package":"b","Output":"ok  \tb\t0.1s\n"}
				{"Action":"pass","Package":"b"}`,
			want: "    x_test.go:1: wrong\n--- FAIL: TestX (0.00s)\n    y_test.go:1: no swtpm\n" +
				"FAIL\nFAIL\ta\t0.1s\nok  \tb\t0.1s\n",
			counts:  counts{failed: 1, skipped: 1},
			summary: "FAIL\ta\tTestX\n",
		},
		{
			name: "a test that stopped the program",
			events: `{"Action":"output","Package":"a","Test":"TestX","Output":"panic: oh\n"}
				{"Action":"output","Package":"a","Output":"FAIL\ta\t0.1s\n"}
				{"Action":"fail","Package":"a"}`,
			want:    "panic: oh\nFAIL\ta\t0.1s\n",
			wrecked: []string{"a"},
			summary: "FAIL\ta\tTestX did not end\n",
		},
		{
			name: "tests that have not ended when the program ran out of time",
			events: `{"Action":"run","Package":"a","Test":"TestX"}
				{"Action":"pause","Package":"a","Test":"TestX"}
				{"Action":"run","Package":"a","Test":"TestY"}
				{"Action":"output","Package":"a","Test":"TestY","Output":"    y_test.go:1: waits\n"}
				{"Action":"pause","Package":"a","Test":"TestY"}
				{"Action":"run","Package":"a","Test":"TestZ"}
				{"Action":"pause","Package":"a","Test":"TestZ"}
				{"Action":"cont","Package":"a","Test":"TestX"}
				{"Action":"output","Package":"a","Output":"FAIL\ta\t2400s\n"}
				{"Action":"fail","Package":"a"}`,
			want:    "    y_test.go:1: waits\nFAIL\ta\t2400s\n",
			wrecked: []string{"a"},
			summary: "FAIL\ta\tTestX did not end\nFAIL\ta\tTestY did not end\n",
		},
		{
			name: "a package that does not compile, and one without tests",
			events: `{"Action":"build-output","ImportPath":"a","Output":"a.go:1: syntax error\n"}
				{"Action":"build-fail","ImportPath":"a"}
				{"Action":"output","Package":"a","Output":"FAIL\ta [build failed]\n"}
				{"Action":"fail","Package":"a","FailedBuild":"a"}
				{"Action":"output","Package":"b","Output":"?   \tb\t[no test files]\n"}
				{"Action":"skip","Package":"b"}`,
			want:    "a.go:1: syntax error\nFAIL\ta [build failed]\n?   \tb\t[no test files]\n",
			wrecked: []string{"a"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			r := newResult()
			require.NoError(t, r.readEvents(strings.NewReader(tt.events), &out))
			require.Equal(t, tt.want, out.String())
			require.Equal(t, tt.counts, r.counts)
			require.Equal(t, tt.wrecked, r.wrecked)
			out.Reset()
			r.printSummary(&out)
			require.Equal(t, tt.summary, out.String())
		})
	}
}

func TestReportRefusesWhatIsNotAnEvent(t *testing.T) {
	t.Parallel()
	err := newResult().readEvents(strings.NewReader("go: no such tool\n"), &strings.Builder{})
	require.ErrorContains(t, err, "read the events of go test")
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	require.NoError(t, verdictOf(counts{passed: 2}, true))
	require.NoError(t, verdictOf(counts{passed: 2, skipped: 1}, false))
	require.EqualError(t, verdictOf(counts{passed: 2, skipped: 1}, true), "1 tests were skipped, and none may be")
	require.EqualError(t, verdictOf(counts{}, false), "no test ran")
}

func TestTheSlowestTests(t *testing.T) {
	t.Parallel()
	var out, times strings.Builder
	r := newResult()
	r.times = &times
	require.NoError(t, r.readEvents(strings.NewReader(`{"Action":"pass","Package":"a","Test":"TestX","Elapsed":19.9}
		{"Action":"pass","Package":"a","Test":"TestY/sub","Elapsed":70}
		{"Action":"pass","Package":"a","Test":"TestY","Elapsed":70.2}
		{"Action":"fail","Package":"b","Test":"TestZ","Elapsed":300}
		{"Action":"pass","Package":"a","Elapsed":500}`), &strings.Builder{}))
	printSlowest(&out, r.slow)
	require.Equal(t, "slow\tb\tTestZ\t300 s\nslow\ta\tTestY\t70 s\nslow\ta\tTestY/sub\t70 s\n", out.String())
	require.Equal(t, 5, strings.Count(times.String(), "\n"))
	require.Contains(t, times.String(), `{"package":"b","test":"TestZ","action":"fail","seconds":300,"load":"`)
	require.Contains(t, times.String(), `{"package":"a","action":"pass","seconds":500,"load":"`)
}

// Tests that another command runs are counted separately, not as skipped.
func TestLeftTests(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	r := newResult()
	require.NoError(t, r.readEvents(strings.NewReader(`
		{"Action":"output","Package":"a","Test":"TestX","Output":"    x_test.go:1: left to make test-all\n"}
		{"Action":"skip","Package":"a","Test":"TestX"}`), &out))
	require.Equal(t, counts{left: 1}, r.counts)
	require.Empty(t, out.String())
}
