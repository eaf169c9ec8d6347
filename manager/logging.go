package manager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"vmop/vmspec"
)

// loggingFile is beside the configuration: levels, in the form of
// java.util.logging.
const loggingFile = "logging.properties"

// LevelAll is below all levels, levelOff above.
const (
	LevelAll = slog.Level(-100)
	levelOff = slog.Level(100)
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
func (l *Levels) read(config string) (warnings []string, err error) {
	file := filepath.Join(filepath.Dir(config), loggingFile)
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

// A property is a line of a file of properties.
type property struct {
	line       int
	key, value string
}

// properties reads the form of java.util.Properties, but for escapes.
func properties(text string) []property {
	var all []property
	whole, first := "", 0
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if whole == "" {
			if line == "" || line[0] == '#' || line[0] == '!' {
				continue
			}
			first = i + 1
		}
		if more, continues := strings.CutSuffix(line, `\`); continues {
			whole += more
			continue
		}
		whole += line
		end := strings.IndexAny(whole, "=: \t")
		if end < 0 {
			end = len(whole)
		}
		value := strings.TrimLeft(whole[end:], " \t")
		value = strings.TrimSpace(strings.TrimLeft(strings.TrimPrefix(strings.TrimPrefix(value, "="), ":"), " \t"))
		all = append(all, property{first, whole[:end], value})
		whole = ""
	}
	return all
}

// Loggers of the original that have something here that corresponds, and the level
// of what handles all messages.
const (
	rootLogger     = ""
	operatorLogger = "org.jdrupes.vmoperator"
	managerLogger  = "org.jdrupes.vmoperator.manager"
	clientLogger   = "io.kubernetes"
	consoleHandler = "java.util.logging.ConsoleHandler"
)

// parseLogging reads levels; the more special logger wins. Warnings have file and
// line.
func parseLogging(file, text string) (setting, []string) {
	var warnings []string
	levels := map[string]*slog.Level{}
	for _, p := range properties(text) {
		logger, isLevel := strings.CutSuffix(p.key, ".level")
		known := slices.Contains([]string{rootLogger, operatorLogger, managerLogger, clientLogger, consoleHandler}, logger)
		level, ok := parseLevel(p.value)
		warn := func(format string, args ...any) {
			warnings = append(warnings, fmt.Sprintf("%s:%d: ", file, p.line)+fmt.Sprintf(format, args...))
		}
		switch {
		case !isLevel && (p.key == "handlers" || strings.HasPrefix(p.key, "java.util.logging.")):
			// How messages look is a matter of --log-format.
		case !isLevel:
			warn("%q is none that is known here (known are levels, such as %s.level)", p.key, managerLogger)
		case !known:
			warn("nothing here corresponds to the logger %q (there are %s and %s)", logger, managerLogger, clientLogger)
		case !ok:
			warn("%s: %q is no level (%s)", p.key, p.value, suggestLevel(p.value))
		default:
			levels[logger] = &level
		}
	}
	least := or(levels[consoleHandler], LevelAll)
	pick := func(loggers ...string) *slog.Level {
		for _, logger := range loggers {
			if found := levels[logger]; found != nil {
				level := max(*found, least)
				return &level
			}
		}
		return nil
	}
	return setting{manager: pick(managerLogger, operatorLogger, rootLogger), libraries: pick(clientLogger, rootLogger)}, warnings
}

// levelNames are those of java.util.logging.Level.
func levelNames() map[string]slog.Level {
	const more = slog.LevelDebug - 4
	return map[string]slog.Level{
		"OFF": levelOff, "SEVERE": slog.LevelError, "WARNING": slog.LevelWarn, "INFO": slog.LevelInfo, "CONFIG": slog.LevelInfo,
		"FINE": slog.LevelDebug, "FINER": more, "FINEST": more, "ALL": more,
	}
}

// parseLevel reads a level of java.util.logging, by name or as a number.
func parseLevel(text string) (slog.Level, bool) {
	if level, ok := levelNames()[text]; ok {
		return level, true
	}
	number, err := strconv.Atoi(text)
	names := levelNames()
	switch {
	case err != nil:
		return 0, false
	case number > 1000:
		return levelOff, true
	case number > 900:
		return names["SEVERE"], true
	case number > 800:
		return names["WARNING"], true
	case number > 500:
		return names["INFO"], true
	case number > 400:
		return names["FINE"], true
	}
	return names["ALL"], true
}

func suggestLevel(text string) string {
	names := []string{"OFF", "SEVERE", "WARNING", "INFO", "CONFIG", "FINE", "FINER", "FINEST", "ALL"}
	if near := vmspec.Nearest(text, names); near != "" {
		return "did you mean " + near + "?"
	}
	if text == "ERROR" {
		return "it is called SEVERE here"
	}
	if text == "DEBUG" {
		return "it is called FINE here"
	}
	return "levels are " + strings.Join(names, ", ")
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

// quiet leaves out what the library says when it has been told to stop while it
// leads: that it doesn't lead any more.
type quiet struct{ slog.Handler }

// Handle implements slog.Handler.
func (h quiet) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "error received after stop sequence was engaged" {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{h.Handler.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (h quiet) WithGroup(name string) slog.Handler { return quiet{h.Handler.WithGroup(name)} }

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
