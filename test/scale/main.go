package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"vmop/test/measure"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := runScale(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func runScale(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("scale", flag.ContinueOnError)
	sizes := flags.String("n", "500,1000,2500,5000", "`numbers` of VMs, growing")
	var p plan
	flags.DurationVar(&p.idle, "idle", 5*time.Minute, "how long nothing happens at the largest number")
	flags.DurationVar(&p.settle, "settle", 150*time.Second,
		"how long memory takes to be what it stays: Go collects garbage\nafter 2 minutes at the latest")
	jsonFile := flags.String("json", "", "also write all figures to this `file`")
	classes := flags.Bool("classes", false, "VMs have a class, and an address of the manager's ranges")
	program := flags.String("vmmanager", "bin/vmmanager", "the `program` to measure")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if p.sizes, err = parseSizes(*sizes); err != nil {
		return err
	}
	path, err := measure.Program(*program)
	if err != nil {
		return err
	}
	log := func(line string) { fmt.Fprintln(os.Stderr, time.Now().Format(time.TimeOnly), line) }
	r := report{Date: time.Now().UTC().Format(time.DateOnly), LoadBefore: measure.Load()}
	w, err := newWorld(ctx, path, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.closeWorld(context.WithoutCancel(ctx))) }()
	w.crowd.classed = *classes
	if err := w.measureGrowth(ctx, &r, p); err != nil {
		return err
	}
	r.LoadAfter = measure.Load()
	fmt.Fprint(out, r.markdownTable())
	return measure.WriteJSON(*jsonFile, r)
}

// parseSizes parses a list of increasing numbers.
func parseSizes(list string) ([]int, error) {
	var numbers []int
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 1 || n > 99999 {
			return nil, fmt.Errorf("-n %s: %q is no number of VMs", list, word)
		}
		numbers = append(numbers, n)
	}
	if !slices.IsSorted(numbers) {
		return nil, fmt.Errorf("-n %s: VMs are added, so the numbers must grow", list)
	}
	return numbers, nil
}
