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

	"vmop/cli"
	"vmop/runner"
	"vmop/runner/config"
	"vmop/runner/prepare"
	"vmop/runner/status/k8s"
	"vmop/vmstatus"
	"vmop/yamlfile"
)

// terminationLog is the file from which the kubelet reads how a container ended.
const terminationLog = "/dev/termination-log"

// longestMessage is the length at which the kubelet cuts a termination message, in bytes.
const longestMessage = 4096

// lastTime bounds the report of the final status. It is a part of config.ForcedStop.
const lastTime = 4 * time.Second

// container is the runner's surroundings in a cluster.
type container struct {
	account string // folder of the service account
	message string // file for the termination message

	grace    time.Duration // from TERM until the kubelet kills the container; 0: it is not killed
	control  *int          // port for the manager; nil: none
	receive  *runner.Receive
	reporter *k8s.Reporter // nil: not in a cluster
	log      *slog.Logger
}

// enter finds out whether the runner is in a pod.
func (c *container) enter(log *slog.Logger) error {
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
			// The manager gives the invitation to the VM's other pod only, which may have another image.
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

// leave reports how the VM ended, or why it did not start, and waits until the cluster
// has taken note of it.
func (c *container) leave(ctx context.Context, opts runner.Options, outcome runner.Outcome, err error) {
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

// A termination is the JSON that describes how a runner ended, for operators of its pod.
type termination struct {
	Cause    vmstatus.Cause `json:"cause"`
	Reason   string         `json:"reason,omitempty"`
	ExitCode int            `json:"exitCode"`
	Message  string         `json:"message"`
}

// lastWords returns the termination message: JSON of at most 4096 bytes.
func (c *container) lastWords(outcome runner.Outcome, err error) []byte {
	t := termination{Cause: outcome.Cause, Reason: outcome.Reason, ExitCode: exitCode(err), Message: outcome.String()}
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

// middleOut shortens a text to about most bytes by taking out its middle: the beginning
// says what failed, and the end has the last output of the program.
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
