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

// LogFlags contains the flags for the level and format of the log.
type LogFlags struct {
	// Level is the lowest level that is logged.
	Level string
	// Form is text, json or auto.
	Form string
}

// Add adds the flags to a command and its subcommands.
func (f *LogFlags) Add(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&f.Level, "log-level", "info", "lowest `LEVEL` to log: debug, info, warn or error")
	cmd.PersistentFlags().StringVar(&f.Form, "log-format", "auto",
		"log `FORMAT`: text, json or auto (text on a terminal)")
	CompleteFlag(cmd, "log-level", "debug", "info", "warn", "error")
	CompleteFlag(cmd, "log-format", "text", "json", "auto")
}

// ParseLevel parses Level.
func (f *LogFlags) ParseLevel() (slog.Level, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.Level)); err != nil {
		return 0, UsageError{Err: fmt.Errorf("--log-level %q: must be debug, info, warn or error", f.Level)}
	}
	return level, nil
}

// Handler returns a handler that writes log messages of at least the level to out, which is standard error or leads
// to it. It replaces the Form auto with text or json.
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
	return nil, UsageError{Err: fmt.Errorf("--log-format %q: must be text, json or auto", f.Form)}
}
