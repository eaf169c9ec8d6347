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

	"vmop/vmstatus"
)

// A Usage is what a VM has used from the start of QEMU to a time.
type Usage = vmstatus.Usage

// A runner keeps the usages of the last hour.
const (
	usageStep = 30 * time.Second
	// In the first minute it measures more often, so that charts soon show something.
	firstSteps     = 12
	firstUsageStep = 5 * time.Second

	usageCount = int(time.Hour / usageStep)
	usageTime  = 5 * time.Second // for QEMU to answer
	// metricsTime is the same for metrics: after it, the other metrics are sent, because the manager waits for
	// two seconds.
	metricsTime = time.Second
)

// usages are the latest, oldest first.
type usages struct {
	mu   sync.Mutex
	list []Usage
}

func (u *usages) addUsage(one Usage) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.list) >= usageCount {
		u.list = slices.Delete(u.list, 0, len(u.list)-usageCount+1)
	}
	u.list = append(u.list, one)
}

// allUsages returns a copy.
func (u *usages) allUsages() []Usage {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.list)
}

// keepUsage measures the usage every firstUsageStep and later every usageStep, until ctx is done.
func (s *Server) keepUsage(ctx context.Context) {
	tick := time.NewTicker(firstUsageStep)
	defer tick.Stop()
	for n := 0; ; n++ {
		if n == firstSteps {
			tick.Reset(usageStep)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if one, err := s.measureUsage(ctx); err == nil { // QEMU may be starting or ending
			s.usage.addUsage(one)
		}
	}
}

// measureUsage returns the current usage.
func (s *Server) measureUsage(ctx context.Context) (Usage, error) {
	t, err := s.trafficOfDevices(ctx)
	if err != nil {
		return Usage{}, err
	}
	pid, proc := s.opts.Tracker.Status().QEMU.PID, os.DirFS("/proc")
	one := Usage{At: time.Now(), CPUSeconds: processorTime(proc, pid), Memory: residentBytes(proc, pid)}
	t.addTo(&one)
	return one, nil
}

// addTo adds the traffic of all drives and taps to a usage.
func (t traffic) addTo(u *Usage) {
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

// ticks is the unit of times in /proc/PID/stat. The kernel's ABI uses it on all architectures that Go supports.
const ticks = 100

// processorTime returns the processor time of a process in seconds (utime and stime of proc(5)); 0 if it is not
// known.
func processorTime(proc fs.FS, pid int) float64 {
	text, err := fs.ReadFile(proc, strconv.Itoa(pid)+"/stat")
	if err != nil {
		return 0
	}
	rest := text[bytes.LastIndexByte(text, ')')+1:] // the name may contain anything
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

func readCounter(net fs.FS, name, what string) (int64, error) {
	text, err := fs.ReadFile(net, name+"/statistics/"+what)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// getUsage answers with the measurements of the last hour, and the current usage.
func (s *Server) getUsage(w http.ResponseWriter, r *http.Request) error {
	list := s.usage.allUsages()
	if one, err := s.measureUsage(r.Context()); err == nil {
		list = append(list, one)
	}
	if list == nil {
		list = []Usage{}
	}
	return giveJSON(w, list)
}
