package control

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"vmop/qmp"
	"vmop/vmtypes/plan"
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
	ctx, cancel := context.WithTimeout(ctx, usageTime)
	defer cancel()
	reply, err := s.opts.Backend.Run(ctx, qmp.Command{Execute: "query-blockstats"})
	if err != nil {
		return Usage{}, err
	}
	pid, proc := s.opts.Tracker.Status().QEMU.PID, os.DirFS("/proc")
	one := Usage{At: time.Now(), CPUSeconds: processorTime(proc, pid), Memory: resident(proc, pid)}
	if one.Read, one.Written, err = blockBytes(reply); err != nil {
		return Usage{}, err
	}
	if p := s.opts.Backend.Plan(); p != nil {
		one.Received, one.Sent = tapBytes(os.DirFS("/sys/class/net"), p.Taps)
	}
	return one, nil
}

// blockBytes returns what a reply to query-blockstats says that all drives have read and
// written.
func blockBytes(reply json.RawMessage) (read, written int64, err error) {
	var drives []struct {
		Stats struct {
			Read    int64 `json:"rd_bytes"`
			Written int64 `json:"wr_bytes"`
		} `json:"stats"`
	}
	if err := json.Unmarshal(reply, &drives); err != nil {
		return 0, 0, fmt.Errorf("query-blockstats: reply of QEMU: %w", err)
	}
	for _, d := range drives {
		read += d.Stats.Read
		written += d.Stats.Written
	}
	return read, written, nil
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

// tapBytes returns what the guest has received and sent through taps: what the host has sent
// and received. net is /sys/class/net.
func tapBytes(net fs.FS, taps []plan.Tap) (received, sent *int64) {
	for _, t := range taps {
		out, errOut := counter(net, t.Name, "tx_bytes")
		in, errIn := counter(net, t.Name, "rx_bytes")
		if errOut != nil || errIn != nil {
			continue
		}
		if received == nil {
			received, sent = new(int64), new(int64)
		}
		*received += out
		*sent += in
	}
	return received, sent
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
