package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// measureProgram measures the program file, and the work of Go's packages before main.
func measureProgram(b *bench) ([]result, error) {
	info, err := os.Stat(b.vmrunner)
	if err != nil {
		return nil, err
	}
	candidates := []candidate{{name: "vmrunner", once: func() (map[string]float64, error) {
		cmd := exec.CommandContext(b.ctx, b.vmrunner, "version")
		cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("%w\n%s", err, out)
		}
		time, bytes := initTrace(string(out))
		return map[string]float64{"time": time, "memory": bytes / 1000}, nil
	}}}
	all, err := b.interleaveCandidates(candidates)
	if err != nil {
		return nil, err
	}
	return []result{
		singleResult("size of vmrunner", "MB", float64(info.Size())/1e6),
		{Name: "initialisation of its packages", Unit: "ms", Samples: all["vmrunner"]["time"]},
		{Name: "memory allocated by it", Unit: "kB", Samples: all["vmrunner"]["memory"]},
	}, nil
}

// initTrace adds up the lines of GODEBUG=inittrace=1, such as "init os @0.4 ms, 0.02 ms clock, 432 bytes, 9 allocs"
// (documentation of Go's package runtime).
func initTrace(output string) (millis, bytes float64) {
	line := regexp.MustCompile(`^init \S+ @\S+ ms, (\S+) ms clock, (\d+) bytes,`)
	for text := range strings.Lines(output) {
		if m := line.FindStringSubmatch(text); m != nil {
			// The pattern matches only numbers.
			t, _ := strconv.ParseFloat(m[1], 64)
			n, _ := strconv.ParseFloat(m[2], 64)
			millis, bytes = millis+t, bytes+n
		}
	}
	return millis, bytes
}
