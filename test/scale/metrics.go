package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// metrics contains a program's metrics by name with labels, as exported
// (https://prometheus.io/docs/instrumenting/exposition_formats/).
type metrics map[string]float64

func parseMetrics(text string) (metrics, error) {
	all := metrics{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		if at < 0 {
			return nil, fmt.Errorf("metric without a value: %s", line)
		}
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("metric %s: %w", line, err)
		}
		all[line[:at]] = value
	}
	return all, nil
}

// sumOf returns the sum of the metrics with a name and all labels, NAME="VALUE".
func (m metrics) sumOf(name string, labels ...string) float64 {
	sum := 0.0
	for key, value := range m {
		if isOf(key, name, labels) {
			sum += value
		}
	}
	return sum
}

func isOf(key, name string, labels []string) bool {
	base, rest, _ := strings.Cut(key, "{")
	return base == name && !slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(rest, l) })
}

// quantileOf returns a quantile of a histogram's values since before, interpolated within a bucket, or 0 without
// values.
func (m metrics) quantileOf(part float64, before metrics, name string, labels ...string) float64 {
	type bucket struct{ limit, count float64 }
	var buckets []bucket
	for key, count := range m {
		if !isOf(key, name+"_bucket", labels) {
			continue
		}
		_, rest, _ := strings.Cut(key, `le="`)
		text, _, _ := strings.Cut(rest, `"`)
		limit, err := strconv.ParseFloat(text, 64)
		if err != nil {
			continue
		}
		buckets = append(buckets, bucket{limit, count - before[key]})
	}
	slices.SortFunc(buckets, func(a, b bucket) int { return int(math.Copysign(1, a.limit-b.limit)) })
	if len(buckets) == 0 || buckets[len(buckets)-1].count == 0 {
		return 0
	}
	wanted := part * buckets[len(buckets)-1].count
	last := bucket{}
	for _, b := range buckets {
		if b.count >= wanted {
			if math.IsInf(b.limit, 1) {
				return b.limit
			}
			return last.limit + (b.limit-last.limit)*(wanted-last.count)/(b.count-last.count)
		}
		last = b
	}
	return 0
}
