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

// compiling takes what "go build -v" prints: the packages that it compiles, each in a line,
// and what is wrong with them.
type compiling struct {
	name string

	mu       sync.Mutex
	rest     string // of a line
	packages int
	fetched  int
	others   []string
}

// mostComplaints is how many lines are kept of what is wrong.
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

// compilerComplaints returns what is wrong.
func (c *compiling) compilerComplaints() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(append(c.others, c.rest), "\n")
}

// compileProgress says how far it is.
func (c *compiling) compileProgress(since time.Duration) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("building %s for %s: %d modules fetched, %d packages compiled", c.name,
		since.Round(time.Second), c.fetched, c.packages)
}

// progressTime is how often progress is logged.
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

// flags are the Makefile's for everything: what is linked and vmop share what is compiled.
const flags = "-trimpath -buildvcs=false -gcflags=all=-dwarf=false -ldflags=-s"

// compileModule runs "go build" in the folder of a module. The name is for what it says.
func compileModule(ctx context.Context, log func(string), name, module string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-v"}, args...)...)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS="+flags)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it ends its compilers
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
