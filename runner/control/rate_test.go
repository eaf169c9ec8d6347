package control

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRateOf(t *testing.T) {
	t.Parallel()
	at := func(second float64, cpu float64, bytes int64) Usage {
		return Usage{
			At: time.Unix(0, int64(second*1e9)), CPUSeconds: cpu, Memory: 1 << 30, Read: bytes, Written: 2 * bytes,
			Received: new(3 * bytes), Sent: new(4 * bytes),
		}
	}
	r, is := rateOf([]Usage{at(0, 0, 0), at(30, 10, 1000), at(40, 15, 2048), at(40.5, 15, 5096)})
	require.True(t, is)
	require.InDelta(t, 5/10.5, r.CPUs, 1e-9, "not of half a second")
	require.InDelta(t, 4096/10.5, r.Read, 1e-9)
	require.InDelta(t, 4*4096/10.5, *r.Sent, 1e-9)
	busy := RateOf{Name: "busy", Node: "node1", Rate: &r}

	none := at(30, 10, 1000)
	none.Received, none.Sent = nil, nil
	idle, is := rateOf([]Usage{at(28, 10, 1000), none})
	require.True(t, is)
	require.Equal(t, [][]string{
		{"NAME", "NODE", "CPU", "MEMORY", "READ/S", "WRITE/S", "IN/S", "OUT/S"},
		{"busy", "node1", "48%", "1.0 GiB", "390 B", "780 B", "1.1 KiB", "1.5 KiB"},
		{"idle", "node2", "0%", "1.0 GiB", "0 B", "0 B", "-", "-"},
		{"away", "", "no answer"},
	}, RateTable([]RateOf{busy, {Name: "idle", Node: "node2", Rate: &idle}, {Name: "away", Error: "no answer"}}, true))
	require.Equal(t, []string{"busy", "48%"}, RateTable([]RateOf{busy}, false)[1][:2])

	for what, list := range map[string][]Usage{
		"nothing":      nil,
		"one":          {at(0, 0, 0)},
		"a moment":     {at(0, 0, 0), at(0.9, 1, 1)},
		"long ago":     {at(0, 0, 0), at(61, 1, 1)},
		"another QEMU": {at(0, 7, 0), at(10, 1, 1)},
	} {
		_, is = rateOf(list)
		require.False(t, is, what)
	}
}
