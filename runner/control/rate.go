package control

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"vmop/printable"
)

// A Rate is what a VM uses now.
type Rate struct {
	// CPUs is how many of the host's processors QEMU has used on average, the guest's CPUs included.
	CPUs float64 `json:"cpus"`
	// Memory is QEMU's resident memory in bytes.
	Memory int64 `json:"memory"`
	// Read and Written are bytes in a second of all drives.
	Read    float64 `json:"read"`
	Written float64 `json:"written"`
	// Received and Sent are bytes in a second of the guest's network interfaces that are taps on the host; nil if there
	// is none.
	Received *float64 `json:"received,omitempty"`
	Sent     *float64 `json:"sent,omitempty"`
}

// What a rate is the average of, at least, and what is too long ago.
const (
	leastRateTime = time.Second
	mostRateTime  = 2 * usageStep
)

// Rate returns what the VM uses, on average since the runner has measured it last, or within a second.
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

// rateOf returns the rate at the end of usages, the oldest first; false if that can't be known.
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
		case passed > mostRateTime, last.CPUSeconds < before.CPUSeconds: // or that was another QEMU
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

// A RateOf is a running VM, and what it uses.
type RateOf struct {
	Name string `json:"name"`
	// Node is where it runs; "" on a computer of its own.
	Node string `json:"node,omitempty"`
	*Rate
	// Error says why that is not known.
	Error string `json:"error,omitempty"`
}

// rateTime is how long a runner may take to say what its VM uses, for which it may measure twice.
const rateTime = 5 * time.Second

// AskRates asks the runners of VMs, at most so many at a time, what these use, and sorts them by that: the busiest
// first, and last those of which it is not known, as explained.
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

// RateTable returns the rows of a table: 100% is one processor, as top(1) has it.
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
			in, out = scaled(*v.Received), scaled(*v.Sent)
		}
		rows = append(rows, row(v.Name, v.Node, fmt.Sprintf("%.0f%%", v.CPUs*100), scaled(float64(v.Memory)),
			scaled(v.Read), scaled(v.Written), in, out))
	}
	return rows
}

// scaled returns bytes in the largest unit of which there is one: "1.5 MiB".
func scaled(n float64) string {
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
