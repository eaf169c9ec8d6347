// Package javalogging reads logging.properties, the configuration file of java.util.logging, which users of
// VM-Operator have. Only the levels in it have an equivalent here.
//
// See docs/decisions/0018-slog.md.
package javalogging

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"vmop/internal/spelling"
)

// File is the usual name of the file.
const File = "logging.properties"

// LargestFile is the maximum size of the file in bytes.
const LargestFile = 1 << 20

// All is below all levels, Off above all levels.
const (
	All = slog.Level(-100)
	off = slog.Level(100)
)

// consoleHandler handles all messages and also has a level.
const consoleHandler = "java.util.logging.ConsoleHandler"

// Levels maps the names of loggers to their levels; "" stands for all other loggers.
type Levels map[string]slog.Level

// Of returns the level of the first logger with a level, but at least the level of the handler. It returns nil if
// all the loggers lack a level.
func (l Levels) Of(loggers ...string) *slog.Level {
	least, ok := l[consoleHandler]
	if !ok {
		least = All
	}
	for _, logger := range loggers {
		if level, ok := l[logger]; ok {
			level = max(level, least)
			return &level
		}
	}
	return nil
}

// Loggers of the original that correspond to the runner's log.
const (
	Runner   = "org.jdrupes.vmoperator.runner.qemu"
	Operator = "org.jdrupes.vmoperator"
)

// A Problem is a line of a file without effect.
type Problem struct {
	// Line is counted from 1.
	Line int
	// Message is a text for people.
	Message string
	// Foreign means that the line configures a logger without an equivalent here. It may be meant for another reader
	// of the file; all other problems are mistakes.
	Foreign bool
}

// Parse parses the text of a file. Warnings, with file and line, are about lines without effect: other loggers than
// the given ones, and invalid levels.
func Parse(file, text string, loggers ...string) (Levels, []string) {
	levels, problems := readLevels(text, loggers)
	var warnings []string
	for _, p := range problems {
		warnings = append(warnings, fmt.Sprintf("%s:%d: %s", file, p.Line, p.Message))
	}
	return levels, warnings
}

// Check returns the lines of a text that have no effect if only the given loggers exist.
func Check(text string, loggers ...string) []Problem {
	_, problems := readLevels(text, loggers)
	return problems
}

func readLevels(text string, loggers []string) (Levels, []Problem) {
	var problems []Problem
	levels := Levels{}
	known := append([]string{"", consoleHandler}, loggers...)
	for _, p := range parseProperties(text) {
		logger, isLevel := strings.CutSuffix(p.key, ".level")
		level, ok := parseLevel(p.value)
		note := func(foreign bool, format string, args ...any) {
			problems = append(problems, Problem{p.line, fmt.Sprintf(format, args...), foreign})
		}
		switch {
		case !isLevel && (p.key == "handlers" || strings.HasPrefix(p.key, "java.util.logging.")):
			// --log-format sets the format of messages.
		case !isLevel:
			note(false, "%q is unknown here (known are levels, such as %s.level)", p.key, loggers[0])
		case !slices.Contains(known, logger):
			note(true, "no logger here corresponds to %q (there are %s)", logger, strings.Join(loggers, ", "))
		case !ok:
			note(false, "%s: %q is not a level (%s)", p.key, p.value, suggestLevel(p.value))
		default:
			levels[logger] = level
		}
	}
	return levels, problems
}

// levelNames returns the levels of java.util.logging.Level.
func levelNames() map[string]slog.Level {
	const more = slog.LevelDebug - 4
	return map[string]slog.Level{
		"OFF": off, "SEVERE": slog.LevelError, "WARNING": slog.LevelWarn, "INFO": slog.LevelInfo,
		"CONFIG": slog.LevelInfo,
		"FINE":   slog.LevelDebug, "FINER": more, "FINEST": more, "ALL": more,
	}
}

// parseLevel parses a level of java.util.logging, by name or as a number.
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
		return off, true
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
	if near := spelling.Nearest(text, names); near != "" {
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

// A property is a line of a properties file.
type property struct {
	line       int
	key, value string
}

// parseProperties parses the format of java.util.Properties, without escapes.
func parseProperties(text string) []property {
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
