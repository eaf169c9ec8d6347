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
	"vmop/internal/printable"
)

// Phases that do not occur in package diskimage.
const (
	waitForUserUpload diskimage.Phase = "WaitForUserUpload"
	failed            diskimage.Phase = "Failed"
)

// outcome describes how an import has ended, for programs.
type outcome struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
	diskimage.Result
}

// mostMessage is the maximum length of an outcome's message in characters. Kubernetes keeps 4096 bytes of a
// termination message, and a character may need 6 bytes in JSON.
const mostMessage = 500

func importOutcome(result diskimage.Result, err error) outcome {
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

// state is the answer to GET /progress.
type state struct {
	diskimage.Progress
	Reason  string `json:"reason,omitempty"`  // of a failure, including an upload that can be repeated
	Message string `json:"message,omitempty"` // text for Reason
}

// reporter reports the progress and the outcome of an import.
type reporter struct {
	log         *slog.Logger
	termination string

	mu  sync.Mutex
	now state
}

func (r *reporter) reportProgress(p diskimage.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.Phase != r.now.Phase {
		r.log.Info("phase", "phase", string(p.Phase), "format", string(p.Format), "bytes", p.Bytes, "total", p.Total)
	}
	r.now.Progress = p
}

// reportWait reports that the import waits for an upload, and the error of the previous upload.
func (r *reporter) reportWait(err error) {
	r.reportProgress(diskimage.Progress{Phase: waitForUserUpload})
	if err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	o := importOutcome(diskimage.Result{}, err)
	r.now.Reason, r.now.Message = o.Reason, o.Message
	r.log.Warn("upload failed", "reason", o.Reason, "err", o.Message)
}

// serveProgress serves the progress until ctx is done.
func (r *reporter) serveProgress(ctx context.Context, address string) error {
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
		_ = json.NewEncoder(w).Encode(now) // an error means that the client has gone
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

// reportEnd reports how the import ended.
func (r *reporter) reportEnd(out io.Writer, result diskimage.Result, err error) error {
	o := importOutcome(result, err)
	for _, warning := range result.Warnings {
		r.log.Warn(warning)
	}
	writeErr := r.publishOutcome(out, o)
	if err == nil {
		r.log.Info("imported", "format", string(result.Format), "size", result.VirtualSize, "checksum", result.Checksum)
		return writeErr
	}
	p := r.now.Progress
	p.Phase = failed
	r.reportProgress(p)
	r.log.Error("import failed", "reason", o.Reason, "err", o.Message)
	return errors.Join(reported{err}, writeErr)
}

// publishOutcome prints an outcome and writes it to the termination log for Kubernetes.
func (r *reporter) publishOutcome(out io.Writer, o outcome) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", text)
	if r.termination != "" {
		// The kubelet has created the file, so it can't be replaced.
		err = errors.Join(err, os.WriteFile(r.termination, text, 0o600))
	}
	return err
}
