package soak_test

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// growth is the maximum difference between the means of the last and the first third of a runner's life.
type growth struct {
	metric string
	factor float64
	more   float64
}

// growths are the metrics that must stay flat. A viewer uses a few goroutines and descriptors. Memory settles after the
// first hundred requests.
var growths = []growth{
	{"process_open_fds", 1, 3},
	{"go_goroutines", 1, 5},
	{"process_resident_memory_bytes", 1.10, 1 << 20},
}

// shortLife is the number of samples that are too few to judge.
const shortLife = 30

// life contains the samples of a runner's metrics, one for each step.
type life map[string][]float64

// sample reads a sample from metrics in Prometheus' text format.
func (l life) sample(metrics string) error {
	for _, g := range growths {
		value, err := metric(metrics, g.metric)
		if err != nil {
			return err
		}
		l[g.metric] = append(l[g.metric], value)
	}
	return nil
}

func metric(metrics, name string) (float64, error) {
	for line := range strings.Lines(metrics) {
		if strings.HasPrefix(line, name+"{") {
			return strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 64)
		}
	}
	return 0, fmt.Errorf("there is no metric %s", name)
}

// grown returns the metrics that have grown, and a summary.
func (l life) grown() (wrong []string, summary string) {
	var text bytes.Buffer
	for _, g := range growths {
		values := l[g.metric]
		if len(values) < shortLife {
			return nil, fmt.Sprintf("%d samples", len(values))
		}
		values = values[len(values)/10:] // skip the beginning
		first, last := mean(values[:len(values)/3]), mean(values[len(values)-len(values)/3:])
		fmt.Fprintf(&text, " %s %.0f → %.0f", g.metric, first, last)
		if last > first*g.factor+g.more {
			wrong = append(wrong, fmt.Sprintf("%s has grown from %.1f to %.1f: %v", g.metric, first, last, values))
		}
	}
	return wrong, strings.TrimSpace(text.String())
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

func TestGrowthIsFound(t *testing.T) {
	t.Parallel()
	flat, leaking := life{}, life{}
	for i := range 2 * shortLife {
		text := "# TYPE process_open_fds gauge\nprocess_open_fds{name=\"a b\"} %d\ngo_goroutines{name=\"a b\"} " +
			"20\nprocess_resident_memory_bytes{name=\"a b\"} 12000000\n"
		require.NoError(t, flat.sample(fmt.Sprintf(text, 10+i%3)))
		require.NoError(t, leaking.sample(fmt.Sprintf(text, 10+i/8)))
	}
	wrong, summary := flat.grown()
	require.Empty(t, wrong)
	require.Equal(t, "process_open_fds 11 → 11 go_goroutines 20 → 20 process_resident_memory_bytes 12000000 → 12000000",
		summary)
	wrong, _ = leaking.grown()
	require.Len(t, wrong, 1)
	require.Contains(t, wrong[0], "process_open_fds has grown from 11.")
	require.Error(t, flat.sample(""))
}
