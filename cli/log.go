package cli

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// LogFlags are the flags for what is logged, and in which format.
type LogFlags struct {
	// Level is the lowest level that is logged.
	Level string
	// Form is text, json or auto.
	Form string
}

// Add adds the flags to a command and those below it.
func (f *LogFlags) Add(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&f.Level, "log-level", "info", "debug, info, warn or error")
	cmd.PersistentFlags().StringVar(&f.Form, "log-format", "auto", "text, json or auto (text on a terminal)")
	CompleteFlag(cmd, "log-level", "debug", "info", "warn", "error")
	CompleteFlag(cmd, "log-format", "text", "json", "auto")
}

// ParseLevel returns Level as slog has it.
func (f *LogFlags) ParseLevel() (slog.Level, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.Level)); err != nil {
		return 0, UsageError{Err: fmt.Errorf("--log-level %q: want debug, info, warn or error", f.Level)}
	}
	return level, nil
}

// Handler returns the handler that writes the log to out, which is standard error or leads
// there, from a level on. It replaces the Form auto by text or json.
func (f *LogFlags) Handler(level slog.Leveler, out io.Writer) (slog.Handler, error) {
	terminal := term.IsTerminal(int(os.Stderr.Fd()))
	if f.Form == "auto" {
		f.Form = "json"
		if terminal {
			f.Form = "text"
		}
	}
	switch f.Form {
	case "text":
		return tint.NewTextHandler(out, &tint.Options{
			Level: level, TimeFormat: time.TimeOnly, NoColor: !terminal || os.Getenv("NO_COLOR") != "",
		}), nil
	case "json":
		return slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level}), nil
	}
	return nil, UsageError{Err: fmt.Errorf("--log-format %q: want text, json or auto", f.Form)}
}
