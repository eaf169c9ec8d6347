package control

import (
	"encoding/json"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/vmtypes/plan"
)

// The counters of QEMU and the kernel are parsed, and missing counters stay unset.
func TestCountersAreRead(t *testing.T) {
	t.Parallel()
	drives, err := driveTraffics(json.RawMessage(`[
		{"device": "", "qdev": "/machine/peripheral/disk0/virtio-backend", "parent": {"stats": {"rd_bytes": 7}}, "stats":
			{"rd_bytes": 1000, "wr_bytes": 20, "rd_operations": 3, "flush_total_time_ns": 1500000000}},
		{"device": "cd0", "qdev": "/machine/unattached/device[7]", "stats": {"rd_bytes": 5, "wr_bytes": 0}},
		{"node-name": "other", "stats": {"rd_bytes": 100}}]`))
	require.NoError(t, err)
	require.Len(t, drives, 2)
	require.Equal(t, "disk0", drives[0].Device)
	_, err = driveTraffics(json.RawMessage(`{}`))
	require.ErrorContains(t, err, "query-blockstats")

	proc := fstest.MapFS{
		"7/stat": {Data: []byte("7 (qemu) 3 4) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 1\n")},
		"8/stat": {Data: []byte("8 (qemu) S 1 2\n")},
	}
	require.InDelta(t, 2.0, processorTime(proc, 7), 0)
	require.Zero(t, processorTime(proc, 8))
	require.Zero(t, processorTime(proc, 9))

	net := fstest.MapFS{}
	for name, n := range map[string]string{"tap0": "100", "tap1": "1"} {
		for _, what := range []string{"bytes", "packets", "errors", "dropped"} {
			net[name+"/statistics/tx_"+what] = &fstest.MapFile{Data: []byte(n + "\n")}
			net[name+"/statistics/rx_"+what] = &fstest.MapFile{Data: []byte("7\n")}
		}
	}
	taps := tapTraffics(net, []plan.Tap{{Name: "tap0"}, {Name: "gone"}, {Name: "tap1"}})
	var u Usage
	traffic{drives, taps}.addTo(&u)
	require.Equal(t, []int64{1005, 20}, []int64{u.Read, u.Written})
	require.EqualValues(t, 101, *u.Received, "what the host sends")
	require.EqualValues(t, 14, *u.Sent)

	u = Usage{}
	traffic{drives: drives}.addTo(&u)
	require.Nil(t, u.Received)
	w := newMetricsWriter("web")
	traffic{drives, taps}.writeMetrics(w)
	for _, line := range []string{
		`vmop_vm_storage_read_traffic_bytes_total{name="web",drive="cd0"} 5`,
		`vmop_vm_storage_iops_read_total{name="web",drive="disk0"} 3`,
		`vmop_vm_storage_flush_times_seconds_total{name="web",drive="disk0"} 1.5`,
		`vmop_vm_network_receive_bytes_total{name="web",interface="tap0"} 100`,
		`vmop_vm_network_transmit_packets_dropped_total{name="web",interface="tap1"} 7`,
	} {
		require.Contains(t, w.String(), line+"\n")
	}
}

// Usage data is kept for at most an hour.
func TestUsagesAreBounded(t *testing.T) {
	t.Parallel()
	var u usages
	for i := range 3 * usageCount {
		u.addUsage(Usage{At: time.Unix(int64(i), 0)})
	}
	all := u.allUsages()
	require.Len(t, all, usageCount)
	require.EqualValues(t, 3*usageCount-1, all[usageCount-1].At.Unix())
}
