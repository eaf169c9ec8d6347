package control

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"vmop/internal/printable"
)

// A Rate is the current usage of a VM.
type Rate struct {
	// CPUs is the average number of the host's processors that QEMU has used, including the guest's CPUs.
	CPUs float64 `json:"cpus"`
	// Memory is QEMU's resident memory in bytes.
	Memory int64 `json:"memory"`
	// Read and Written are bytes per second of all drives.
	Read    float64 `json:"read"`
	Written float64 `json:"written"`
	// Received and Sent are bytes per second of the guest's network interfaces that are taps on the host; nil
	// without taps.
	Received *float64 `json:"received,omitempty"`
	Sent     *float64 `json:"sent,omitempty"`
}

// The shortest and the longest time that a rate may be averaged over.
const (
	leastRateTime = time.Second
	mostRateTime  = 2 * usageStep
)

// Rate returns the VM's usage, averaged since the runner's last measurement, or over about a second.
func (c *Client) Rate(ctx context.Context) (Rate, error) {
	list, err := c.Usage(ctx)
	for {
		if err != nil {
			return Rate{}, err
		}
		if r, is := rateOf(list); is {
			return r, nil
		}
		select {
		case <-ctx.Done():
			return Rate{}, context.Cause(ctx)
		case <-time.After(leastRateTime):
		}
		var more []Usage
		more, err = c.Usage(ctx)
		list = append(list, more...)
	}
}

// rateOf returns the rate at the end of usages, the oldest first; false if it can't be computed.
func rateOf(list []Usage) (r Rate, is bool) {
	if len(list) == 0 {
		return r, false
	}
	last := list[len(list)-1]
	for i := len(list) - 2; i >= 0; i-- {
		before := list[i]
		passed := last.At.Sub(before.At)
		switch {
		case passed < leastRateTime:
			continue
		case passed > mostRateTime, last.CPUSeconds < before.CPUSeconds: // a decrease means another QEMU
			return r, false
		}
		in := func(now, then int64) float64 { return max(0, float64(now-then)) / passed.Seconds() }
		r = Rate{
			CPUs: (last.CPUSeconds - before.CPUSeconds) / passed.Seconds(), Memory: last.Memory,
			Read: in(last.Read, before.Read), Written: in(last.Written, before.Written),
		}
		if last.Received != nil && before.Received != nil {
			r.Received, r.Sent = new(in(*last.Received, *before.Received)), new(in(*last.Sent, *before.Sent))
		}
		return r, true
	}
	return r, false
}

// A RateOf is a running VM with its usage.
type RateOf struct {
	Name string `json:"name"`
	// Node is where it runs; "" outside of a cluster.
	Node string `json:"node,omitempty"`
	*Rate
	// Error is the reason why the rate is not known.
	Error string `json:"error,omitempty"`
}

// rateTime is the time for a runner to report its VM's usage. The runner may measure twice.
const rateTime = 5 * time.Second

// AskRates asks the runners of VMs for their usage, at most atOnce at a time. It sorts the VMs by usage, the
// busiest first. VMs with unknown usage come last, with an explained error.
func AskRates(ctx context.Context, all []RateOf, atOnce int, runner func(context.Context, RateOf) (*Client, error),
	explain func(error) string,
) {
	var requests errgroup.Group
	requests.SetLimit(atOnce)
	for i := range all {
		requests.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, rateTime)
			defer cancel()
			client, err := runner(ctx, all[i])
			if err == nil {
				var r Rate
				if r, err = client.Rate(ctx); err == nil {
					all[i].Rate = &r
					return nil
				}
			}
			all[i].Error = explain(err)
			return nil
		})
	}
	_ = requests.Wait() // no member returns an error
	slices.SortFunc(all, func(a, b RateOf) int {
		switch {
		case a.Rate != nil && b.Rate != nil:
			return cmp.Or(cmp.Compare(b.CPUs, a.CPUs), cmp.Compare(a.Name, b.Name))
		case a.Rate != nil:
			return -1
		case b.Rate != nil:
			return 1
		}
		return cmp.Compare(a.Name, b.Name)
	})
}

// RateTable returns the rows of a table. 100% is one processor, like in top(1).
func RateTable(all []RateOf, nodes bool) [][]string {
	row := func(name, node string, more ...string) []string {
		if nodes {
			more = append([]string{node}, more...)
		}
		return append([]string{name}, more...)
	}
	rows := [][]string{row("NAME", "NODE", "CPU", "MEMORY", "READ/S", "WRITE/S", "IN/S", "OUT/S")}
	for _, v := range all {
		if v.Rate == nil {
			rows = append(rows, row(v.Name, v.Node, printable.Line(v.Error)))
			continue
		}
		in, out := "-", "-"
		if v.Received != nil {
			in, out = scaleBytes(*v.Received), scaleBytes(*v.Sent)
		}
		rows = append(rows, row(v.Name, v.Node, fmt.Sprintf("%.0f%%", v.CPUs*100), scaleBytes(float64(v.Memory)),
			scaleBytes(v.Read), scaleBytes(v.Written), in, out))
	}
	return rows
}

// scaleBytes formats bytes in the largest unit that is not larger than the value: "1.5 MiB".
func scaleBytes(n float64) string {
	unit := 0
	for ; n >= 1024 && unit < 4; unit++ {
		n /= 1024
	}
	name := [...]string{"B", "KiB", "MiB", "GiB", "TiB"}[unit]
	if n < 10 && unit > 0 {
		return fmt.Sprintf("%.1f %s", n, name)
	}
	return fmt.Sprintf("%.0f %s", math.Floor(n), name)
}
