package main

import (
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"vmop/logging"
	"vmop/regular"
)

// logger returns the program's log, on standard error.
func (f *flags) logger() (*slog.Logger, error) {
	level, err := f.log.ParseLevel()
	if err != nil {
		return nil, err
	}
	return f.loggerOf(level)
}

func (f *flags) loggerOf(level slog.Level) (*slog.Logger, error) {
	if f.console == nil {
		handler, err := f.log.Handler(level, os.Stderr)
		if err != nil {
			return nil, err
		}
		return slog.New(handler), nil
	}
	urgent, err := f.log.Handler(level, consoleLines{f.console, true})
	if err != nil {
		return nil, err
	}
	other, err := f.log.Handler(level, consoleLines{f.console, false})
	if err != nil {
		return nil, err
	}
	return slog.New(byUrgency{urgent, other}), nil
}

// runnerLog returns the log of a runner. Its level is the one of logging.properties
// beside the configuration, unless there is no such file or --log-level is given.
func (f *flags) runnerLog(cmd *cobra.Command) (*slog.Logger, error) {
	file := filepath.Join(filepath.Dir(f.config), logging.File)
	text, err := regular.ReadFile(file, logging.LargestFile)
	if err != nil || cmd.Flags().Changed("log-level") {
		return f.logger() // usually there is no such file
	}
	levels, warnings := logging.Parse(file, string(text), logging.Runner, logging.Operator)
	level := slog.LevelInfo
	if configured := levels.Of(logging.Runner, logging.Operator, ""); configured != nil {
		level = *configured
	}
	log, err := f.loggerOf(level)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		log.Warn("logging configuration", "warning", w)
	}
	return log, nil
}
