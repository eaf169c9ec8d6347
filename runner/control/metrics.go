package control

import (
	"bytes"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"vmop/runner/status"
	"vmop/vmstatus"
)

// sample contains the values that are not part of the status.
type sample struct {
	now          time.Time
	dropped      uint64
	clients      int
	runner, qemu int64 // resident memory in bytes, 0 if not known
	goroutines   int
	descriptors  int     // open descriptors of the runner, 0 if not known
	cpu          float64 // processor time of QEMU in seconds
	traffic      traffic
}

// metricsText returns the VM's metrics in Prometheus' text format
// (https://prometheus.io/docs/instrumenting/exposition_formats/).
func metricsText(s status.Status, m sample) []byte { return writeMetrics(s, m).Bytes() }

// Families returns the families of the metrics of VMs, in the order of a runner's output.
func Families() []Family { return writeMetrics(status.Status{}, sample{}).families }

func writeMetrics(s status.Status, m sample) *metricsWriter {
	w := newMetricsWriter(s.Name)
	w.beginFamily("vmop_vm_info", "gauge", "Describes the VM.", "uuid", "vm_type", "qemu_version", "runner_version")
	w.writeValue(1, s.UUID, s.VMType, s.QEMU.Version, s.Runner.Version)
	w.beginFamily("vmop_vm_state", "gauge", "1 for the state the VM is in, 0 for the others.", "state")
	for _, state := range [...]vmstatus.State{
		vmstatus.StateInitializing, vmstatus.StateStarting, vmstatus.StateBooting, vmstatus.StateRunning,
		vmstatus.StateBooted, vmstatus.StateTerminating, vmstatus.StateStopped,
	} {
		w.writeValue(floatOf(s.State == state), string(state))
	}
	w.beginFamily("vmop_vm_condition", "gauge", "1 for a condition that is true.", "condition")
	for _, c := range s.Conditions {
		w.writeValue(floatOf(c.Status == vmstatus.True), string(c.Type))
	}
	w.beginFamily("vmop_vm_cpus", "gauge", "CPUs of the guest.")
	w.writeValue(float64(s.CPUs))
	w.beginFamily("vmop_vm_memory_bytes", "gauge", "Memory of the guest, less what the balloon has taken.")
	w.writeValue(float64(s.RAM))
	w.beginFamily("vmop_vm_cpu_usage_seconds_total", "counter", "Processor time of QEMU, the guest's CPUs included.")
	w.writeValue(m.cpu)
	m.traffic.writeMetrics(w)
	w.beginFamily("vmop_vm_uptime_seconds", "gauge", "Time since the guest was started, 0 if it is not running.")
	w.writeValue(uptimeOf(s, m.now).Seconds())
	w.beginFamily("vmop_vm_consoles", "gauge", "Viewers of the VM.", "kind")
	for _, kind := range [...]string{status.SPICE, status.VNC, status.Serial} {
		w.writeValue(float64(countViewers(s.Consoles, kind)), kind)
	}
	w.beginFamily("vmop_vm_pending_changes", "gauge", "Changes of the configuration that need a restart.")
	w.writeValue(float64(len(s.RestartAwaitingChanges)))
	w.beginFamily("vmop_vm_problems", "gauge", "Problems of the VM.")
	w.writeValue(float64(len(s.Problems)))
	w.beginFamily("vmop_qmp_events_dropped_total", "counter", "QMP events that were lost because too many arrived.")
	w.writeValue(float64(m.dropped))
	w.beginFamily("vmop_control_clients", "gauge", "Connections to the control socket.")
	w.writeValue(float64(m.clients))
	w.beginFamily("vmop_process_resident_memory_bytes", "gauge", "Resident memory of a process of the VM.", "process")
	w.writeValue(float64(m.runner), "runner")
	w.writeValue(float64(m.qemu), "qemu")
	// The names that Prometheus' client libraries use for every process.
	w.beginFamily("process_resident_memory_bytes", "gauge", "Resident memory of the runner.")
	w.writeValue(float64(m.runner))
	w.beginFamily("process_open_fds", "gauge", "Open file descriptors of the runner.")
	w.writeValue(float64(m.descriptors))
	w.beginFamily("go_goroutines", "gauge", "Goroutines of the runner.")
	w.writeValue(float64(m.goroutines))
	return w
}

func floatOf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func uptimeOf(s status.Status, now time.Time) time.Duration {
	if s.Started == nil || s.State == vmstatus.StateStopped {
		return 0
	}
	return now.Sub(*s.Started)
}

func countViewers(consoles []status.Console, kind string) int {
	n := 0
	for _, c := range consoles {
		if c.Kind == kind {
			n++
		}
	}
	return n
}

// A Family is the metrics with one name.
type Family struct {
	// Name of the metrics, their Type ("gauge", "counter"), and their description.
	Name, Type, Help string
	// Labels are names of labels, in addition to the VM's label ("name").
	Labels []string
}

// Head returns the lines that precede the metrics in Prometheus' text format.
func (f Family) Head() string {
	return "# HELP " + f.Name + " " + f.Help + "\n# TYPE " + f.Name + " " + f.Type + "\n"
}

// metricsWriter writes families of metrics; every metric names the VM.
type metricsWriter struct {
	bytes.Buffer
	escapes  *strings.Replacer // the format has three
	vm       string            // quoted
	families []Family
}

func newMetricsWriter(vm string) *metricsWriter {
	w := &metricsWriter{escapes: strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)}
	w.vm = w.quoteLabel(vm)
	return w
}

func (w *metricsWriter) beginFamily(name, kind, help string, labels ...string) {
	f := Family{name, kind, help, labels}
	w.families = append(w.families, f)
	w.WriteString(f.Head())
}

// writeValue writes a metric of the last family, with values for its labels.
func (w *metricsWriter) writeValue(v float64, labels ...string) {
	f := w.families[len(w.families)-1]
	fmt.Fprintf(w, "%s{name=%s", f.Name, w.vm)
	for i, name := range f.Labels {
		fmt.Fprintf(w, ",%s=%s", name, w.quoteLabel(labels[i]))
	}
	fmt.Fprintf(w, "} %s\n", strconv.FormatFloat(v, 'f', -1, 64))
}

// quoteLabel returns a label's value.
func (w *metricsWriter) quoteLabel(s string) string {
	return `"` + w.escapes.Replace(strings.ToValidUTF8(s, "�")) + `"`
}

// residentBytes returns the resident memory of a process in bytes (VmRSS of proc(5)), 0 if it is not known.
func residentBytes(proc fs.FS, pid int) int64 {
	text, err := fs.ReadFile(proc, strconv.Itoa(pid)+"/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		rest, found := strings.CutPrefix(line, "VmRSS:")
		if !found {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
		if err != nil {
			return 0
		}
		return kib << 10
	}
	return 0
}

// openDescriptors counts the open descriptors of a process (proc(5)), except the descriptor for reading the
// directory; 0 if the number is not known.
func openDescriptors(proc fs.FS, pid int) int {
	list, err := fs.ReadDir(proc, strconv.Itoa(pid)+"/fd")
	if err != nil {
		return 0
	}
	return len(list) - 1
}
