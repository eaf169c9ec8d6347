package control

import (
	"encoding/json"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/vmtypes/plan"
)

// What QEMU and the kernel count is read as they write it; what is missing is not made up.
func TestCountersAreRead(t *testing.T) {
	t.Parallel()
	read, written, err := blockBytes(json.RawMessage(`[
		{"device": "disk", "stats": {"rd_bytes": 1000, "wr_bytes": 20}, "parent": {"stats": {"rd_bytes": 7}}},
		{"device": "cd", "stats": {"rd_bytes": 5, "wr_bytes": 0}}]`))
	require.NoError(t, err)
	require.Equal(t, []int64{1005, 20}, []int64{read, written})
	_, _, err = blockBytes(json.RawMessage(`{}`))
	require.ErrorContains(t, err, "query-blockstats")

	proc := fstest.MapFS{
		"7/stat": {Data: []byte("7 (qemu) 3 4) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 1\n")},
		"8/stat": {Data: []byte("8 (qemu) S 1 2\n")},
	}
	require.InDelta(t, 2.0, processorTime(proc, 7), 0)
	require.Zero(t, processorTime(proc, 8))
	require.Zero(t, processorTime(proc, 9))

	net := fstest.MapFS{
		"tap0/statistics/tx_bytes": {Data: []byte("100\n")}, "tap0/statistics/rx_bytes": {Data: []byte("7\n")},
		"tap1/statistics/tx_bytes": {Data: []byte("1\n")}, "tap1/statistics/rx_bytes": {Data: []byte("2\n")},
	}
	received, sent := tapBytes(net, []plan.Tap{{Name: "tap0"}, {Name: "gone"}, {Name: "tap1"}})
	require.EqualValues(t, 101, *received, "what the host sends")
	require.EqualValues(t, 9, *sent)
	received, _ = tapBytes(net, nil)
	require.Nil(t, received)
}

// An hour is kept, and no more.
func TestUsagesAreBounded(t *testing.T) {
	t.Parallel()
	var u usages
	for i := range 3 * usageCount {
		u.add(Usage{At: time.Unix(int64(i), 0)})
	}
	all := u.all()
	require.Len(t, all, usageCount)
	require.EqualValues(t, 3*usageCount-1, all[usageCount-1].At.Unix())
}
