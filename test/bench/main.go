// Command bench measures the speed and size that the project promises, compared with other ways to do the same work:
//
//	go run ./test/bench [-rounds 15] [-json FILE] [-vmrunner bin/vmrunner] [-before FILE] [-only REGEXP]
//
// With -before, it also compares starts with another vmrunner, for example from the last release. With -only, it
// measures only the sections with matching titles.
//
// It prints the machine, the versions and the load, followed by a table of medians. The candidates of a comparison take
// turns, and each round reverses the order of the previous round. The ratio is the median of the rounds' ratios, so a
// disturbance affects all candidates. The first round is discarded. If a peer is not installed, the table shows it as
// skipped. All numbers are measured on this machine.
//
// test/bench/RESULTS.md explains each line of the table.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"

	"vmop/test/measure"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := runBench(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is the common state of the measurements.
type bench struct {
	ctx      context.Context
	rounds   int
	vmrunner string // path of the program
	before   string // path of another vmrunner to compare starts with, or ""
	only     *regexp.Regexp
	cc       string // C compiler; "" if missing
	dir      string // folder for all created files, removed at the end
	log      io.Writer
}

// section groups related measurements.
type section struct {
	title   string
	measure func(*bench) ([]result, error)
}

func runBench(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	rounds := flags.Int("rounds", 15, "how often each candidate is measured")
	jsonFile := flags.String("json", "", "also write all samples to this `file`")
	program := flags.String("vmrunner", "bin/vmrunner", "the `program` to measure")
	before := flags.String("before", "", "another vmrunner, a `program` that starts are compared with")
	only := flags.String("only", "", "measure the sections whose titles match this `regexp`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	path, err := measure.Program(*program)
	if err != nil {
		return err
	}
	if *before != "" {
		if *before, err = measure.Program(*before); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp("", "bench") // short, because it contains sockets
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &bench{
		ctx: ctx, rounds: max(*rounds, 1), vmrunner: path, before: *before, only: wanted, cc: "cc", dir: dir,
		log: os.Stderr,
	}
	r, err := b.measureAll()
	if err != nil {
		return err
	}
	fmt.Fprint(out, r.markdownTable())
	return measure.WriteJSON(*jsonFile, r)
}

func (b *bench) measureAll() (report, error) {
	r := report{Machine: thisMachine(b.ctx), Rounds: b.rounds, LoadBefore: measure.Load()}
	for _, s := range []section{
		{"Start of a VM with TPM, OVMF and cloud-init", measureStart},
		{"Start until QEMU is executed, without TPM", measureExec},
		{"The first word of a guest, by VM type, without KVM", measureBoot},
		{"VM type: the standard one, for a desktop", measureVMType},
		{"cloud-init image", measureImage},
		{"A running VM follows its configuration", measureFollow},
		{"Next to an idle VM", measureIdle},
		{"The program", measureProgram},
	} {
		if !b.only.MatchString(s.title) {
			continue
		}
		fmt.Fprintln(b.log, "measuring:", s.title)
		results, err := s.measure(b)
		if err != nil {
			return r, fmt.Errorf("%s: %w", s.title, err)
		}
		for i := range results {
			results[i].Section = s.title
		}
		r.Results = append(r.Results, results...)
	}
	r.LoadAfter = measure.Load()
	return r, nil
}
