package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"vmop/diskimage"
	"vmop/diskimage/transfer"
	"vmop/printable"
)

// Phases that an import itself doesn't have.
const (
	waitForUserUpload diskimage.Phase = "WaitForUserUpload"
	failed            diskimage.Phase = "Failed"
)

// An outcome is how an import has ended, for programs.
type outcome struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
	diskimage.Result
}

// mostMessage is how many characters of a message are in an outcome: Kubernetes keeps 4096 bytes
// of a termination message, and a character may have 6 in JSON.
const mostMessage = 500

func outcomeOf(result diskimage.Result, err error) outcome {
	if err != nil {
		return outcome{
			Reason: string(diskimage.ReasonOf(err)), Message: printable.Clip(printable.Line(err.Error()), mostMessage),
		}
	}
	return outcome{
		Reason: transfer.Imported, Result: result,
		Message: fmt.Sprintf("a disk of %s was imported (%s)", diskimage.Size(result.VirtualSize), result.Format),
	}
}

// state is what GET /progress answers.
type state struct {
	diskimage.Progress
	Reason  string `json:"reason,omitempty"`  // of a failure, also of an upload that can be repeated
	Message string `json:"message,omitempty"` // its text
}

// reporter says how far an import is, and how it has ended.
type reporter struct {
	log         *slog.Logger
	termination string

	mu  sync.Mutex
	now state
}

func (r *reporter) progress(p diskimage.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.Phase != r.now.Phase {
		r.log.Info("phase", "phase", string(p.Phase), "format", string(p.Format), "bytes", p.Bytes, "total", p.Total)
	}
	r.now.Progress = p
}

// wait says that an upload is waited for, and why the last one was not enough.
func (r *reporter) wait(err error) {
	r.progress(diskimage.Progress{Phase: waitForUserUpload})
	if err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	o := outcomeOf(diskimage.Result{}, err)
	r.now.Reason, r.now.Message = o.Reason, o.Message
	r.log.Warn("upload failed", "reason", o.Reason, "err", o.Message)
}

// listen serves the progress until the context ends.
func (r *reporter) listen(ctx context.Context, address string) error {
	if address == "" {
		return nil
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("serve the progress: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /progress", func(w http.ResponseWriter, _ *http.Request) {
		r.mu.Lock()
		now := r.now
		r.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(now) // the client has gone
	})
	server := &http.Server{
		Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(r.log.Handler(), slog.LevelDebug),
	}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { _ = server.Serve(l) }() // until it is closed
	r.log.Info("serving the progress", "address", l.Addr().String())
	return nil
}

// end reports how the import ended.
func (r *reporter) end(out io.Writer, result diskimage.Result, err error) error {
	o := outcomeOf(result, err)
	for _, warning := range result.Warnings {
		r.log.Warn(warning)
	}
	writeErr := r.publish(out, o)
	if err == nil {
		r.log.Info("imported", "format", string(result.Format), "size", result.VirtualSize, "checksum", result.Checksum)
		return writeErr
	}
	p := r.now.Progress
	p.Phase = failed
	r.progress(p)
	r.log.Error("import failed", "reason", o.Reason, "err", o.Message)
	return errors.Join(reported{err}, writeErr)
}

// publish prints an outcome, and writes it where Kubernetes reads it.
func (r *reporter) publish(out io.Writer, o outcome) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", text)
	if r.termination != "" {
		// The kubelet has made the file; it can't be replaced.
		err = errors.Join(err, os.WriteFile(r.termination, text, 0o600))
	}
	return err
}
