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

// Bounds of asking import pods how far they are. A pod that doesn't answer costs a goroutine
// for a moment.
const (
	fetchPause  = 5 * time.Second // from one question to the next, for each pod
	fetchTime   = 3 * time.Second // for an answer
	mostFetches = 16              // at a time
	mostAnswer  = 8 << 10         // bytes of an answer
	mostMessage = 300             // characters of a message in it
)

// fetched is what import pods have said.
type fetched struct {
	client *http.Client
	slots  chan struct{}

	mu sync.Mutex
	of map[string]*fetch // by the disk's name
}

// fetch is what a pod has said.
type fetch struct {
	pod          types.UID
	asked, began time.Time
	first        float64 // per cent, when it began
	last         *disk.Progress
}

func progressClient() *http.Client {
	return &http.Client{
		Timeout:   fetchTime,
		Transport: &http.Transport{DisableKeepAlives: true, Proxy: nil},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // a pod is asked, and no other server
		},
	}
}

// latestProgress returns what a pod has said last, nil for nothing, and asks it again without waiting for
// the answer. Upon that the disk is looked at.
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
		return known.last // with the next turn
	}
	known.asked = now
	ctx = context.WithoutCancel(ctx) // the client has a limit of time
	go func() {
		defer func() { <-f.slots }()
		said, err := f.queryPod(ctx, net.JoinHostPort(address, strconv.Itoa(disk.ProgressPort)))
		if err == nil && f.recordAnswer(of, pod, said, c.opts.Now()) {
			c.requests.Enqueue(of)
		}
	}()
	return known.last
}

// forgetDisk removes what a disk's pod has said, which is no longer needed.
func (f *fetched) forgetDisk(of string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.of, of)
}

// recordAnswer keeps what a pod has said, and reports whether that is another per cent.
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

// answer is what a pod says.
type answer struct {
	Percent float64 `json:"percent"`
	Bytes   int64   `json:"bytes"`
	Total   int64   `json:"total"`
	Format  string  `json:"format"`
	Phase   string  `json:"phase"`
	Message string  `json:"message"`
}

// queryPod asks a pod how far it is.
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
	said.Percent = min(max(said.Percent, 0), 99) // it is whole when its pod has ended
	said.Bytes, said.Total = max(said.Bytes, 0), max(said.Total, 0)
	return said, nil
}
