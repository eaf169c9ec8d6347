package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"vmop/test/wait"
)

// tick is the polling interval for changes without events.
const tick = 50 * time.Millisecond

// The manager's addresses in the cluster's network.
const (
	healthAddress  = "127.0.0.1:8081"
	metricsAddress = "127.0.0.1:8080"
)

// manager is a process of the measured program.
type manager struct {
	cmd    *exec.Cmd
	log    string // file
	began  time.Time
	ended  chan struct{} // closed when err is set
	err    error
	client *http.Client
}

// startManager starts the manager, and waits until it has filled its caches. If VMs exist, it waits until the manager
// has reconciled one.
func (w *world) startManager(ctx context.Context, vms int) error {
	config, kubeconfig, err := w.managerConfig(ctx)
	if err != nil {
		return err
	}
	m := &manager{ended: make(chan struct{}), log: filepath.Join(w.dir, "manager.log"), client: w.httpClient()}
	m.cmd = w.Inside(context.WithoutCancel(ctx), w.program, "run", "-c", config, "--kubeconfig", kubeconfig,
		"--health-address", healthAddress, "--metrics-address", metricsAddress, "--runner-image", "vmop/runner",
		"--leader-elect", "--log-format", "json")
	out, err := os.OpenFile(m.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // the process has inherited it
	m.cmd.Stdout, m.cmd.Stderr = out, out
	m.began = time.Now()
	if err := m.cmd.Start(); err != nil {
		return fmt.Errorf("start the manager: %w", err)
	}
	w.manager = m
	go func() {
		defer close(m.ended)
		m.err = m.cmd.Wait()
	}()
	return m.repeatUntil(ctx, "the manager to work", func() error {
		if _, err := m.getText(ctx, "http://"+healthAddress+"/readyz"); err != nil {
			return err
		}
		all, err := m.readMetrics(ctx)
		if err == nil && vms > 0 && all.sumOf(reconciled+"_count") == 0 {
			err = errors.New("it has looked at no VM")
		}
		return err
	})
}

// httpClient returns an HTTP client in the cluster's network.
func (w *world) httpClient() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: w.Dial, DisableKeepAlives: true}, Timeout: time.Minute}
}

// stopManager sends SIGTERM to the manager, and waits.
func (m *manager) stopManager() error {
	_ = m.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-m.ended:
	case <-time.After(wait.Longest):
		_ = m.cmd.Process.Kill()
		<-m.ended
		return errors.New("the manager doesn't end")
	}
	if m.err != nil {
		return fmt.Errorf("the manager: %w\n%s", m.err, m.lastWords())
	}
	return nil
}

// lastWords returns the end of its log.
func (m *manager) lastWords() string {
	text, err := os.ReadFile(m.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}

// getText returns the manager's response to a GET request.
func (m *manager) getText(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := m.client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }() // it was read completely
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, response.Status, text)
	}
	return string(text), err
}

// readMetrics returns the manager's metrics.
func (m *manager) readMetrics(ctx context.Context) (metrics, error) {
	text, err := m.getText(ctx, "http://"+metricsAddress+"/metrics")
	if err != nil {
		return nil, err
	}
	return parseMetrics(text)
}

// residentBytes returns the resident memory in bytes.
func (m *manager) residentBytes() (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", m.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("the manager's memory: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "Rss:" {
			kib, err := strconv.Atoi(fields[1])
			return kib << 10, err
		}
	}
	return 0, errors.New("the manager's memory: the kernel doesn't say Rss")
}

// repeatUntil repeats try until it succeeds or the manager ends.
func (m *manager) repeatUntil(ctx context.Context, what string, try func() error) error {
	ctx, cancel := wait.Context(ctx)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(tick):
		case <-m.ended:
			return fmt.Errorf("wait for %s: the manager has ended: %w\n%s", what, m.err, m.lastWords())
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w: %w\n%s", what, context.Cause(ctx), err, m.lastWords())
		}
	}
}
