package main

import (
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"vmop/internal/javalogging"
	"vmop/internal/readfile"
)

// newLogger returns the program's log, on standard error.
func (f *flags) newLogger() (*slog.Logger, error) {
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

// runnerLog returns the log of a runner. The level comes from logging.properties next to the configuration,
// unless that file is missing or --log-level is given.
func (f *flags) runnerLog(cmd *cobra.Command) (*slog.Logger, error) {
	file := filepath.Join(filepath.Dir(f.config), javalogging.File)
	text, err := readfile.ReadFile(file, javalogging.LargestFile)
	if err != nil || cmd.Flags().Changed("log-level") {
		return f.newLogger() // the file is usually missing
	}
	levels, warnings := javalogging.Parse(file, string(text), javalogging.Runner, javalogging.Operator)
	level := slog.LevelInfo
	if configured := levels.Of(javalogging.Runner, javalogging.Operator, ""); configured != nil {
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
