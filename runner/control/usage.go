package control

import (
	"bytes"
	"context"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Usage is what a VM has used from the start of QEMU to a time. The rates of its counters
// are what they differ by between two times.
type Usage struct {
	At time.Time `json:"at"`
	// CPUSeconds is QEMU's processor time, that of the guest's CPUs included.
	CPUSeconds float64 `json:"cpuSeconds"`
	// Memory is QEMU's resident memory in bytes.
	Memory int64 `json:"memory"`
	// Read and Written are bytes of all drives.
	Read    int64 `json:"read"`
	Written int64 `json:"written"`
	// Received and Sent are bytes of the guest's network interfaces that are taps on the host;
	// nil if there is none, because QEMU counts nothing of its own networks.
	Received *int64 `json:"received,omitempty"`
	Sent     *int64 `json:"sent,omitempty"`
}

// Which usages a runner keeps: those of the last hour.
const (
	usageStep  = 30 * time.Second
	usageCount = int(time.Hour / usageStep)
	usageTime  = 5 * time.Second // for QEMU to answer
	// metricsTime is the same for metrics, which have the rest without it: the manager waits for two seconds.
	metricsTime = time.Second
)

// usages are the latest, oldest first.
type usages struct {
	mu   sync.Mutex
	list []Usage
}

func (u *usages) add(one Usage) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.list) >= usageCount {
		u.list = slices.Delete(u.list, 0, len(u.list)-usageCount+1)
	}
	u.list = append(u.list, one)
}

// all returns a copy.
func (u *usages) all() []Usage {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.list)
}

// keepUsage measures the usage now and then, until ctx is done.
func (s *Server) keepUsage(ctx context.Context) {
	tick := time.NewTicker(usageStep)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if one, err := s.measure(ctx); err == nil { // QEMU may be starting or ending
			s.usage.add(one)
		}
	}
}

// measure returns the usage by now.
func (s *Server) measure(ctx context.Context) (Usage, error) {
	t, err := s.traffic(ctx)
	if err != nil {
		return Usage{}, err
	}
	pid, proc := s.opts.Tracker.Status().QEMU.PID, os.DirFS("/proc")
	one := Usage{At: time.Now(), CPUSeconds: processorTime(proc, pid), Memory: resident(proc, pid)}
	one.add(t)
	return one, nil
}

// add adds up what there has been on all drives and taps.
func (u *Usage) add(t traffic) {
	for _, d := range t.drives {
		u.Read += d.Stats.Read
		u.Written += d.Stats.Written
	}
	for _, tap := range t.taps {
		if u.Received == nil {
			u.Received, u.Sent = new(int64), new(int64)
		}
		*u.Received += tap.received.bytes
		*u.Sent += tap.sent.bytes
	}
}

// ticks is the unit of times in /proc/PID/stat: the kernel's ABI has it on all architectures
// that Go supports.
const ticks = 100

// processorTime returns the processor time of a process in seconds (utime and stime of
// proc(5)); 0 if it is not known.
func processorTime(proc fs.FS, pid int) float64 {
	text, err := fs.ReadFile(proc, strconv.Itoa(pid)+"/stat")
	if err != nil {
		return 0
	}
	rest := text[bytes.LastIndexByte(text, ')')+1:] // the name may have anything in it
	fields := strings.Fields(string(rest))
	const utime, stime = 11, 12 // fields 14 and 15 of the line
	if len(fields) <= stime {
		return 0
	}
	user, errUser := strconv.ParseInt(fields[utime], 10, 64)
	system, errSystem := strconv.ParseInt(fields[stime], 10, 64)
	if errUser != nil || errSystem != nil {
		return 0
	}
	return float64(user+system) / ticks
}

func counter(net fs.FS, name, what string) (int64, error) {
	text, err := fs.ReadFile(net, name+"/statistics/"+what)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// getUsage answers with what was measured in the last hour, and what is now.
func (s *Server) getUsage(w http.ResponseWriter, r *http.Request) error {
	list := s.usage.all()
	if one, err := s.measure(r.Context()); err == nil {
		list = append(list, one)
	}
	if list == nil {
		list = []Usage{}
	}
	return giveJSON(w, list)
}
