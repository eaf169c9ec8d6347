package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"
	"unicode/utf8"

	"vmop/internal/cli"
	"vmop/internal/yamlfile"
	"vmop/runner"
	"vmop/runner/config"
	"vmop/runner/prepare"
	"vmop/runner/status/k8s"
	"vmop/vmstatus"
)

// terminationLog is the file in which the kubelet looks for the reason why a container ended.
const terminationLog = "/dev/termination-log"

// longestMessage is the maximum length of a termination message, in bytes. The kubelet truncates longer messages.
const longestMessage = 4096

// lastTime limits the report of the final status. It is part of config.ForcedStop.
const lastTime = 4 * time.Second

// container describes the runner's environment in a cluster.
type container struct {
	account string // folder of the service account
	message string // file for the termination message

	grace    time.Duration // from TERM until the kubelet kills the container; 0: never
	control  *int          // port for the manager; nil: none
	receive  *runner.Receive
	reporter *k8s.Reporter // nil: not in a cluster
	log      *slog.Logger
}

// enterPod reads the environment of the runner, and detects whether it runs in a pod.
func (c *container) enterPod(log *slog.Logger) error {
	c.log = log
	var err error
	if c.grace, err = config.GracePeriod(os.Getenv); err != nil {
		return err
	}
	if c.control, err = config.ControlPort(os.Getenv); err != nil {
		return err
	}
	migration, address, err := config.Receive(os.Getenv)
	if err != nil {
		return err
	}
	if migration != "" {
		c.receive = &runner.Receive{
			Address: address, Migration: migration, Invitation: filepath.Join(os.TempDir(), "invitation"),
			Copies: config.Copies(os.Getenv),
			// The manager gives the invitation only to the VM's other pod, which may have a different image.
			TrustSource: true,
		}
	}
	pod, err := k8s.FindPod(os.Getenv, c.account)
	if err != nil {
		return err
	}
	if pod == nil {
		return nil
	}
	c.reporter = k8s.NewReporter(pod, log)
	if _, err := os.Stat(terminationLog); c.message == "" && err == nil {
		c.message = terminationLog
	}
	return nil
}

// leavePod reports how the VM ended, or why it did not start, and waits until the cluster has recorded the report.
func (c *container) leavePod(ctx context.Context, opts runner.Options, outcome runner.Outcome, err error) {
	if c.message != "" {
		if err := os.WriteFile(c.message, c.lastWords(outcome, err), 0o644); err != nil {
			c.log.Warn("cannot write the termination message", "err", err)
		}
	}
	if c.reporter == nil {
		return
	}
	runner.AwaitStop(ctx, opts, outcome)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTime)
	defer cancel()
	c.reporter.Close(ctx)
}

// lastWords returns the termination message: JSON of at most 4096 bytes that shows operators of the pod how the
// runner ended.
func (c *container) lastWords(outcome runner.Outcome, err error) []byte {
	t := vmstatus.Outcome{
		Cause: outcome.Cause, Reason: outcome.Reason, ExitCode: exitCode(err), Message: outcome.String(),
	}
	if outcome.Output != "" {
		t.Message += ": " + outcome.Output
	}
	if outcome.Cause == "" {
		t.Cause, t.Reason, t.Message = vmstatus.CauseStart, string(vmstatus.ReasonStartFailed), ""
		switch {
		case errors.As(err, new(cli.SignalError)):
			t.Cause, t.Reason = vmstatus.CauseAsked, ""
		case errors.As(err, new(*prepare.DataError)):
			t.Reason = string(vmstatus.ReasonDataMissing)
		case errors.As(err, new(yamlfile.Faults)):
			t.Reason = string(vmstatus.ReasonConfigInvalid)
		}
		if err != nil {
			t.Message = cli.Describe(err)
		}
	}
	if c.reporter != nil {
		t.Message = k8s.InResource(t.Message)
	}
	for most := longestMessage; ; most -= most / 8 {
		short := t
		short.Message = middleOut(t.Message, most)
		text, err := json.Marshal(short)
		if err != nil || len(text) <= longestMessage {
			return text
		}
	}
}

// middleOut shortens a text to about most bytes by removing the middle. The beginning names the failed action,
// and the end contains the last output of the program.
func middleOut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	head, tail := most/2, len(s)-most/2
	for head > 0 && !utf8.RuneStart(s[head]) {
		head--
	}
	for tail < len(s) && !utf8.RuneStart(s[tail]) {
		tail++
	}
	return fmt.Sprintf("%s … %s", s[:head], s[tail:])
}
