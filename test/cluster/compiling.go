package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// compiling receives the output of "go build -v": a line for each compiled package, and error messages.
type compiling struct {
	name string

	mu       sync.Mutex
	rest     string // of a line
	packages int
	fetched  int
	others   []string
}

// mostComplaints is the maximum number of error lines to keep.
const mostComplaints = 40

// Write implements io.Writer.
func (c *compiling) Write(text []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines := strings.Split(c.rest+string(text), "\n")
	c.rest = lines[len(lines)-1]
	for _, line := range lines[:len(lines)-1] {
		switch {
		case strings.HasPrefix(line, "go: downloading "):
			c.fetched++
		case !strings.ContainsAny(line, " \t:"):
			c.packages++
		case len(c.others) < mostComplaints:
			c.others = append(c.others, line)
		}
	}
	return len(text), nil
}

// compilerComplaints returns the error messages.
func (c *compiling) compilerComplaints() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(append(c.others, c.rest), "\n")
}

// compileProgress returns the progress of the build.
func (c *compiling) compileProgress(since time.Duration) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("building %s for %s: %d modules fetched, %d packages compiled", c.name,
		since.Round(time.Second), c.fetched, c.packages)
}

// progressTime is the interval of progress messages.
const progressTime = 15 * time.Second

// logDuring logs the progress of a build while it runs.
func (c *compiling) logDuring(log func(string), run func() error) error {
	done, begin := make(chan error, 1), time.Now()
	go func() { done <- run() }()
	ticks := time.NewTicker(progressTime)
	defer ticks.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-ticks.C:
			log(c.compileProgress(time.Since(begin)))
		}
	}
}

// flags are the Makefile's build flags, so that these builds share compiled packages with vmop's.
const flags = "-trimpath -buildvcs=false -gcflags=all=-dwarf=false -ldflags=-s"

// compileModule runs "go build" in the folder of a module. The name appears in messages.
func compileModule(ctx context.Context, log func(string), name, module string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-v"}, args...)...)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS="+flags)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // lets it end its compilers
	cmd.WaitDelay = 10 * time.Second
	out := &compiling{name: name}
	cmd.Stdout, cmd.Stderr = out, out
	if err := out.logDuring(log, cmd.Run); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("build %s: %w", name, context.Cause(ctx))
		}
		return fmt.Errorf("build %s: %w\n%s", name, err, out.compilerComplaints())
	}
	return nil
}
