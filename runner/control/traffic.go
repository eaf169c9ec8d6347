package control

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"vmop/qmp"
	"vmop/vmtypes/plan"
)

// traffic is the amount of data that a VM has read, written, sent and received since QEMU was started.
type traffic struct {
	drives []driveTraffic
	taps   []tapTraffic
}

// driveTraffic contains the values of a drive's device from query-blockstats. Times are the total duration of
// requests, in nanoseconds.
type driveTraffic struct {
	Device string `json:"qdev"`
	Drive  string `json:"device"` // its name in QEMU's -drive; "" for a -blockdev
	Stats  struct {
		Read      int64 `json:"rd_bytes"`
		Written   int64 `json:"wr_bytes"`
		Reads     int64 `json:"rd_operations"`
		Writes    int64 `json:"wr_operations"`
		Flushes   int64 `json:"flush_operations"`
		ReadTime  int64 `json:"rd_total_time_ns"`
		WriteTime int64 `json:"wr_total_time_ns"`
		FlushTime int64 `json:"flush_total_time_ns"`
	} `json:"stats"`
}

// tapTraffic contains the host's counters of a tap from the guest's view: the guest receives what the host sends.
type tapTraffic struct {
	name           string
	received, sent counts
}

type counts struct{ bytes, packets, errors, dropped int64 }

// trafficOfDevices returns the traffic so far. It fails if QEMU doesn't answer in time.
func (s *Server) trafficOfDevices(ctx context.Context) (t traffic, err error) {
	ctx, cancel := context.WithTimeout(ctx, usageTime)
	defer cancel()
	reply, err := s.opts.Backend.Run(ctx, qmp.Command{Execute: "query-blockstats"})
	if err != nil {
		return t, err
	}
	if t.drives, err = driveTraffics(reply); err != nil {
		return t, err
	}
	if p := s.opts.Backend.Plan(); p != nil {
		t.taps = tapTraffics(os.DirFS("/sys/class/net"), p.Taps)
	}
	return t, nil
}

// driveTraffics parses a reply to query-blockstats. It skips nodes without a device, which are below or next to a
// node with a device.
func driveTraffics(reply json.RawMessage) ([]driveTraffic, error) {
	var all, drives []driveTraffic
	if err := json.Unmarshal(reply, &all); err != nil {
		return nil, fmt.Errorf("query-blockstats: reply of QEMU: %w", err)
	}
	for _, d := range all {
		path, isNamed := strings.CutPrefix(strings.TrimSuffix(d.Device, "/virtio-backend"), "/machine/peripheral/")
		if !isNamed { // its device has no id
			path = cmp.Or(d.Drive, d.Device)
		}
		if d.Device = path; path != "" {
			drives = append(drives, d)
		}
	}
	return drives, nil
}

// tapTraffics reads /sys/class/net. It omits missing taps, for example those in another network namespace.
func tapTraffics(net fs.FS, taps []plan.Tap) (all []tapTraffic) {
	for _, tap := range taps {
		t := tapTraffic{name: tap.Name}
		var failed error
		for direction, to := range map[string]*counts{"tx": &t.received, "rx": &t.sent} {
			for what, count := range map[string]*int64{
				"bytes": &to.bytes, "packets": &to.packets, "errors": &to.errors, "dropped": &to.dropped,
			} {
				n, err := readCounter(net, tap.Name, direction+"_"+what)
				if *count = n; err != nil {
					failed = err
				}
			}
		}
		if failed == nil {
			all = append(all, t)
		}
	}
	return all
}

// The metrics of a drive and of a tap, with KubeVirt's names.
var (
	storageMetrics = [...][2]string{
		{"read_traffic_bytes", "Bytes that the guest has read"},
		{"write_traffic_bytes", "Bytes that the guest has written"},
		{"iops_read", "Requests to read"},
		{"iops_write", "Requests to write"},
		{"flush_requests", "Requests to flush"},
		{"read_times_seconds", "Time that requests to read took"},
		{"write_times_seconds", "Time that requests to write took"},
		{"flush_times_seconds", "Time that requests to flush took"},
	}
	networkMetrics = [...][2]string{
		{"bytes", "Bytes"},
		{"packets", "Packets"},
		{"errors", "Packets with errors"},
		{"packets_dropped", "Packets that were dropped"},
	}
)

func (d driveTraffic) metricValues() [len(storageMetrics)]float64 {
	const nano = 1e-9
	s := d.Stats
	return [...]float64{
		float64(s.Read), float64(s.Written), float64(s.Reads), float64(s.Writes), float64(s.Flushes),
		float64(s.ReadTime) * nano, float64(s.WriteTime) * nano, float64(s.FlushTime) * nano,
	}
}

func (c counts) metricValues() [len(networkMetrics)]float64 {
	return [...]float64{float64(c.bytes), float64(c.packets), float64(c.errors), float64(c.dropped)}
}

// writeMetrics writes the metrics.
func (t traffic) writeMetrics(w *metricsWriter) {
	for i, m := range storageMetrics {
		w.beginFamily("vmop_vm_storage_"+m[0]+"_total", "counter", m[1]+", by the drive's device.", "drive")
		for _, d := range t.drives {
			w.writeValue(d.metricValues()[i], d.Device)
		}
	}
	for i, m := range networkMetrics {
		w.beginFamily("vmop_vm_network_receive_"+m[0]+"_total", "counter", m[1]+" to the guest, by the tap.",
			"interface")
		for _, tap := range t.taps {
			w.writeValue(tap.received.metricValues()[i], tap.name)
		}
		w.beginFamily("vmop_vm_network_transmit_"+m[0]+"_total", "counter", m[1]+" from the guest, by the tap.",
			"interface")
		for _, tap := range t.taps {
			w.writeValue(tap.sent.metricValues()[i], tap.name)
		}
	}
}
