package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"vmop/internal/printable"
	"vmop/manager/disk"
)

// Limits for asking import pods for their progress. A pod that doesn't answer blocks one goroutine for a short time.
const (
	fetchPause  = 5 * time.Second // between two requests to the same pod
	fetchTime   = 3 * time.Second // for an answer
	mostFetches = 16              // in parallel
	mostAnswer  = 8 << 10         // bytes of an answer
	mostMessage = 300             // characters of its message
)

// fetched contains the last answers of import pods.
type fetched struct {
	client *http.Client
	slots  chan struct{}

	mu sync.Mutex
	of map[string]*fetch // by disk name
}

// fetch is the last answer of a pod.
type fetch struct {
	pod          types.UID
	asked, began time.Time
	first        float64 // percent, at the first answer
	last         *disk.Progress
}

func progressClient() *http.Client {
	return &http.Client{
		Timeout:   fetchTime,
		Transport: &http.Transport{DisableKeepAlives: true, Proxy: nil},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // only the pod is asked, no other server
		},
	}
}

// latestProgress returns the last answer of a pod, nil if there is none, and asks the pod again in the background. A
// changed answer causes the disk to be reconciled.
func (f *fetched) latestProgress(ctx context.Context, of string, pod types.UID, address string, c *Controller,
) *disk.Progress {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.of[of]
	if known == nil || known.pod != pod {
		known = &fetch{pod: pod}
		f.of[of] = known
	}
	now := c.opts.Now()
	if now.Sub(known.asked) < fetchPause {
		return known.last
	}
	select {
	case f.slots <- struct{}{}:
	default:
		return known.last // the next call tries again
	}
	known.asked = now
	ctx = context.WithoutCancel(ctx) // the client has a timeout
	go func() {
		defer func() { <-f.slots }()
		said, err := f.queryPod(ctx, net.JoinHostPort(address, strconv.Itoa(disk.ProgressPort)))
		if err == nil && f.recordAnswer(of, pod, said, c.opts.Now()) {
			c.requests.Enqueue(of)
		}
	}()
	return known.last
}

// forgetDisk removes the last answer of a disk's pod.
func (f *fetched) forgetDisk(of string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.of, of)
}

// recordAnswer keeps the answer of a pod, and reports whether the status should change.
func (f *fetched) recordAnswer(of string, pod types.UID, said answer, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.of[of]
	if known == nil || known.pod != pod {
		return false
	}
	next := &disk.Progress{
		Waits: said.Phase == disk.ReasonUpload, Message: printable.Clip(printable.Line(said.Message), mostMessage),
		Percent: int(said.Percent), Bytes: said.Bytes, Total: said.Total,
		Format: printable.Clip(printable.Line(said.Format), 20),
	}
	if known.began.IsZero() || said.Percent < known.first {
		known.began, known.first = now, said.Percent
	}
	if done := said.Percent - known.first; done > 0 {
		next.Left = time.Duration(float64(now.Sub(known.began)) * (100 - said.Percent) / done)
	}
	was := known.last
	known.last = next
	return was == nil || was.Percent != next.Percent || was.Waits != next.Waits || was.Message != next.Message
}

// answer is the JSON answer of a pod.
type answer struct {
	Percent float64 `json:"percent"`
	Bytes   int64   `json:"bytes"`
	Total   int64   `json:"total"`
	Format  string  `json:"format"`
	Phase   string  `json:"phase"`
	Message string  `json:"message"`
}

// queryPod asks a pod for its progress.
func (f *fetched) queryPod(ctx context.Context, address string) (said answer, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/progress", nil)
	if err != nil {
		return said, err
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return said, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return said, fmt.Errorf("ask %s for the progress: the answer is %s", address, resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, mostAnswer)).Decode(&said); err != nil {
		return said, err
	}
	said.Percent = min(max(said.Percent, 0), 99) // 100 only when the pod has ended
	said.Bytes, said.Total = max(said.Bytes, 0), max(said.Total, 0)
	return said, nil
}
