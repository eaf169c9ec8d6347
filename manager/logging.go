package manager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"

	"vmop/internal/javalogging"
	"vmop/internal/readfile"
	"vmop/internal/yamlfile"
)

// Levels are the log levels. They can change at any time.
type Levels struct {
	// Manager is the level of the manager's own log. Libraries is the level of the Kubernetes libraries, which
	// log many uninteresting messages. Their default level is therefore warnings.
	Manager, Libraries slog.LevelVar
	// Fixed keeps the levels regardless of logging.properties.
	Fixed bool
}

// setting contains the levels in a file; nil means the default.
type setting struct{ manager, libraries *slog.Level }

// readLevels applies logging.properties in the directory of a configuration. The warnings list entries without effect.
func (l *Levels) readLevels(beside string) (warnings []string, err error) {
	file := filepath.Join(filepath.Dir(beside), javalogging.File)
	text, err := readfile.ReadFile(file, javalogging.LargestFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read logging configuration: %w", err)
	}
	found, warnings := parseLogging(file, string(text))
	if l.Fixed {
		return warnings, nil
	}
	l.Manager.Set(valueOr(found.manager, slog.LevelInfo))
	l.Libraries.Set(valueOr(found.libraries, slog.LevelWarn))
	return warnings, nil
}

func valueOr[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}

// Loggers of VM-Operator with an equivalent in this program.
const (
	rootLogger    = ""
	managerLogger = "org.jdrupes.vmoperator.manager"
	clientLogger  = "io.kubernetes"
)

// parseLogging reads levels. The more specific logger takes precedence. Warnings contain the file and the line.
func parseLogging(file, text string) (setting, []string) {
	levels, warnings := javalogging.Parse(file, text, managerLogger, javalogging.Operator, clientLogger)
	return setting{
		manager:   levels.Of(managerLogger, javalogging.Operator, rootLogger),
		libraries: levels.Of(clientLogger, rootLogger),
	}, warnings
}

// checkRunnersLevels checks the levels for runners. Loggers that runners don't have cause only a warning, because
// VM-Operator's files name them.
func checkRunnersLevels(document *yamlfile.Document, text string, faults *faults) (warnings []yamlfile.Warning) {
	const path = reconcilerPath + ".loggingProperties"
	for _, problem := range javalogging.Check(text, javalogging.Runner, javalogging.Operator) {
		message := fmt.Sprintf("line %d: %s", problem.Line, problem.Message)
		if problem.Foreign {
			warnings = append(warnings, document.Warning(path, message, ""))
		} else {
			faults.addFault(path, message, "")
		}
	}
	return warnings
}

// leveled is a handler with a variable level.
type leveled struct {
	slog.Handler
	level slog.Leveler
}

// Enabled implements slog.Handler.
func (h leveled) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= h.level.Level() && h.Handler.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h leveled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return leveled{h.Handler.WithAttrs(attrs), h.level}
}

// WithGroup implements slog.Handler.
func (h leveled) WithGroup(name string) slog.Handler {
	return leveled{h.Handler.WithGroup(name), h.level}
}

// quiet drops messages that the libraries log after the manager was asked to stop: the loss of leadership, and canceled
// requests.
type quiet struct {
	slog.Handler
	stopped func() error // returns nil until then
}

// Handle implements slog.Handler.
func (h quiet) Handle(ctx context.Context, r slog.Record) error {
	idle := r.Message == "error received after stop sequence was engaged"
	r.Attrs(func(a slog.Attr) bool {
		err, is := a.Value.Any().(error)
		idle = idle || is && h.stopped() != nil && errors.Is(err, context.Canceled)
		return !idle
	})
	if idle {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h quiet) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quiet{h.Handler.WithAttrs(attrs), h.stopped}
}

// WithGroup implements slog.Handler.
func (h quiet) WithGroup(name string) slog.Handler {
	return quiet{h.Handler.WithGroup(name), h.stopped}
}

// mostWarnings is the maximum number of remembered warnings.
const mostWarnings = 1000

// serverWarnings logs the API server's warnings, each text once, because the pods of all VMs may cause the same
// warning.
type serverWarnings struct {
	log *slog.Logger

	mu     sync.Mutex
	logged map[string]bool
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *serverWarnings) HandleWarningHeader(code int, _, text string) {
	const miscellaneous = 299 // the only code that Kubernetes uses
	w.mu.Lock()
	defer w.mu.Unlock()
	if code != miscellaneous || text == "" || w.logged[text] {
		return
	}
	if len(w.logged) >= mostWarnings {
		clear(w.logged)
	}
	w.logged[text] = true
	w.log.Warn("warning of the API server", "warning", text)
}
