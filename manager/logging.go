package manager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"vmop/logging"
	"vmop/yamlfile"
)

// Levels are what is logged; each can change at any time.
type Levels struct {
	// Manager is for what the manager says itself, Libraries for what the
	// libraries say that talk to Kubernetes: much that concerns nobody, so there
	// it is warnings that are logged if nothing else is said.
	Manager, Libraries slog.LevelVar
	// Fixed keeps the levels as they are, whatever logging.properties says.
	Fixed bool
}

// setting is what a file says about levels; nil leaves one as it was at first.
type setting struct{ manager, libraries *slog.Level }

// read applies the file beside a configuration. Warnings are what of it has no
// effect.
func (l *Levels) read(beside string) (warnings []string, err error) {
	file := filepath.Join(filepath.Dir(beside), logging.File)
	text, err := os.ReadFile(file)
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

// Loggers of the original that have something here that corresponds.
const (
	rootLogger    = ""
	managerLogger = "org.jdrupes.vmoperator.manager"
	clientLogger  = "io.kubernetes"
)

// parseLogging reads levels; the more special logger wins. Warnings have file and
// line.
func parseLogging(file, text string) (setting, []string) {
	levels, warnings := logging.Parse(file, text, managerLogger, logging.Operator, clientLogger)
	return setting{manager: levels.Of(managerLogger, logging.Operator, rootLogger), libraries: levels.Of(clientLogger, rootLogger)}, warnings
}

// checkRunnersLevels looks at the levels that runners shall have. Loggers that they
// don't have are warned of, as a file of the original may name them.
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

// leveled lets pass what is of a level, which can change.
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

// quiet leaves out what the libraries say when they have been told to stop: that the
// manager doesn't lead any more, and what was given up in that moment.
type quiet struct {
	slog.Handler
	told func() error // nil until then
}

// Handle implements slog.Handler.
func (h quiet) Handle(ctx context.Context, r slog.Record) error {
	idle := r.Message == "error received after stop sequence was engaged"
	r.Attrs(func(a slog.Attr) bool {
		err, is := a.Value.Any().(error)
		idle = idle || is && h.told() != nil && errors.Is(err, context.Canceled)
		return !idle
	})
	if idle {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h quiet) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quiet{h.Handler.WithAttrs(attrs), h.told}
}

// WithGroup implements slog.Handler.
func (h quiet) WithGroup(name string) slog.Handler {
	return quiet{h.Handler.WithGroup(name), h.told}
}

// mostNoted bounds which warnings are remembered.
const mostNoted = 1000

// serverWarnings logs what the API server warns of, each text once: the pods of all
// VMs may give reason to the same.
type serverWarnings struct {
	log *slog.Logger

	mu    sync.Mutex
	noted map[string]bool
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *serverWarnings) HandleWarningHeader(code int, _, text string) {
	const miscellaneous = 299 // the only code that Kubernetes uses
	w.mu.Lock()
	defer w.mu.Unlock()
	if code != miscellaneous || text == "" || w.noted[text] {
		return
	}
	if len(w.noted) >= mostNoted {
		clear(w.noted)
	}
	w.noted[text] = true
	w.log.Warn("the API server warns", "warning", text)
}
