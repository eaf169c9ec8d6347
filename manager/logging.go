package manager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"

	"vmop/logging"
	"vmop/regular"
	"vmop/yamlfile"
)

// Levels are the levels of the log; each can change at any time.
type Levels struct {
	// Manager is the level of the manager's own log, Libraries that of the Kubernetes
	// libraries, which log much of little interest: by default, only warnings.
	Manager, Libraries slog.LevelVar
	// Fixed keeps the levels as they are, without regard to logging.properties.
	Fixed bool
}

// setting is what a file says about levels; nil is the default.
type setting struct{ manager, libraries *slog.Level }

// read applies logging.properties in the directory of a configuration. Warnings are about
// what has no effect.
func (l *Levels) read(beside string) (warnings []string, err error) {
	file := filepath.Join(filepath.Dir(beside), logging.File)
	text, err := regular.ReadFile(file, logging.LargestFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read logging configuration: %w", err)
	}
	found, warnings := parseLogging(file, string(text))
	if l.Fixed {
		return warnings, nil
	}
	l.Manager.Set(or(found.manager, slog.LevelInfo))
	l.Libraries.Set(or(found.libraries, slog.LevelWarn))
	return warnings, nil
}

func or[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}

// Loggers of VM-Operator that have an equivalent here.
const (
	rootLogger    = ""
	managerLogger = "org.jdrupes.vmoperator.manager"
	clientLogger  = "io.kubernetes"
)

// parseLogging reads levels; the more specific logger wins. Warnings have file and line.
func parseLogging(file, text string) (setting, []string) {
	levels, warnings := logging.Parse(file, text, managerLogger, logging.Operator, clientLogger)
	return setting{
		manager:   levels.Of(managerLogger, logging.Operator, rootLogger),
		libraries: levels.Of(clientLogger, rootLogger),
	}, warnings
}

// checkRunnersLevels checks the levels for runners. Loggers that runners don't have cause a
// warning only, as files of VM-Operator name them.
func checkRunnersLevels(document *yamlfile.Document, text string, faults *faults) (warnings []yamlfile.Warning) {
	const path = reconcilerPath + ".loggingProperties"
	for _, problem := range logging.Check(text, logging.Runner, logging.Operator) {
		message := fmt.Sprintf("line %d: %s", problem.Line, problem.Message)
		if problem.Foreign {
			warnings = append(warnings, document.Warning(path, message, ""))
		} else {
			faults.add(path, message, "")
		}
	}
	return warnings
}

// leveled is a handler with a level, which can change.
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

// quiet drops what the libraries log after a stop was requested: that the manager is no
// longer the leader, and what was cancelled by it.
type quiet struct {
	slog.Handler
	stopped func() error // nil until then
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

// mostWarnings bounds how many warnings are remembered.
const mostWarnings = 1000

// serverWarnings logs the warnings of the API server, each text once: the pods of all VMs may
// cause the same.
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
