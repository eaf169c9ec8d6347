// Command fuzz runs each fuzz test of the module for a limited time.
//
//	go run ./test/fuzz [-time 3s] [-share 1/4] [PATTERN]
//
// It runs only targets with names, such as ./qmp.FuzzRead, that match the pattern. With -share n/of it runs every of-th
// target, beginning with number n, so consecutive numbers select different targets. A failing input is written to the
// package's testdata/fuzz. Keep it there after the fix: go test reads it.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := runFuzz(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
}

func runFuzz(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("fuzz", flag.ContinueOnError)
	duration := flags.Duration("time", 3*time.Second, "how long each target runs")
	var share share
	flags.Var(&share, "share", "run one in so many targets: `n/of`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	pattern, err := regexp.Compile(flags.Arg(0))
	if err != nil {
		return err
	}
	all, err := findTargets(os.DirFS("."))
	if err != nil {
		return err
	}
	ran, failed := 0, 0
	for i, t := range all {
		if !share.hasShare(i) || !pattern.MatchString(t.String()) {
			continue
		}
		ran++
		summary, err := t.fuzzTarget(ctx, *duration)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			failed++
			summary = "FAILED\n" + err.Error()
		}
		fmt.Fprintf(out, "%-42s %s\n", t, summary)
	}
	fmt.Fprintf(out, "%d targets, %d failed\n", ran, failed)
	switch {
	case ran == 0:
		return fmt.Errorf("there is no target %s", pattern)
	case failed > 0:
		return fmt.Errorf("%d of %d targets failed", failed, ran)
	}
	return nil
}

// share selects every of-th target, beginning with number n, counted from 0 modulo the number of targets. The zero
// value selects all targets.
type share struct{ n, of int }

func (s *share) String() string { return fmt.Sprintf("%d/%d", s.n, s.of) }

// Set implements flag.Value.
func (s *share) Set(text string) error {
	n, of, _ := strings.Cut(text, "/")
	var errs [2]error
	s.n, errs[0] = strconv.Atoi(n)
	s.of, errs[1] = strconv.Atoi(of)
	if errors.Join(errs[:]...) != nil || s.n < 0 || s.of < 1 {
		return errors.New("want two numbers such as 1/4")
	}
	return nil
}

func (s *share) hasShare(i int) bool { return s.of == 0 || i%s.of == s.n%s.of }

// target is a fuzz test of the package in a folder.
type target struct{ folder, name string }

func (t target) String() string { return "./" + t.folder + "." + t.name }

// findTargets returns all fuzz tests of a module.
func findTargets(module fs.FS) (found []target, err error) {
	declaration := regexp.MustCompile(`(?m)^func (Fuzz\w+)\(\w+ \*testing\.F\)`)
	err = fs.WalkDir(module, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := fs.ReadFile(module, file)
		for _, match := range declaration.FindAllSubmatch(text, -1) {
			found = append(found, target{path.Dir(file), string(match[1])})
		}
		return err
	})
	return found, err
}

// fuzzTarget runs a target, and returns its last progress message.
func (t target) fuzzTarget(ctx context.Context, duration time.Duration) (summary string, err error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-run=^$", "-fuzz=^"+t.name+"$", "-fuzztime="+duration.String(),
		"-fuzzminimizetime=1x", "./"+t.folder)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	text, err := cmd.CombinedOutput()
	if err != nil && !outOfTime(text) {
		return "", fmt.Errorf("%w\n%s", err, text)
	}
	// On a busy computer, the corpus alone may take all the time.
	lines := regexp.MustCompile(`(execs: \d+ |gathering baseline coverage: [1-9]).*`).FindAll(text, -1)
	if len(lines) == 0 {
		return "", fmt.Errorf("no input was tried\n%s", text)
	}
	return string(lines[len(lines)-1]), nil
}

// outOfTime reports whether go test failed only because its time was over, which is not a failure
// (https://go.dev/issue/75804, until Go 1.27).
func outOfTime(text []byte) bool {
	_, said, found := bytes.Cut(text, []byte("\n--- FAIL: "))
	_, said, _ = bytes.Cut(said, []byte("\n"))
	return found && bytes.HasPrefix(said, []byte("    context deadline exceeded\nFAIL\n"))
}
