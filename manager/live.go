package manager

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"

	"vmop/logging"
	"vmop/manager/objects"
	"vmop/manager/serve"
	"vmop/runner/config"
	"vmop/yamlfile"
)

// live is the configuration in force. It follows the files: one without faults replaces
// the last one, one with faults is logged and changes nothing.
type live struct {
	opts         Options
	log          *slog.Logger
	source       source
	lastErr      string        // what was logged last
	lastWarnings []string      // the same, of logging.properties
	changed      chan struct{} // settings returns something else
	pages        *serve.Pages  // follow the configuration; nil while it is read for the first time

	current    atomic.Pointer[objects.Settings]
	generation atomic.Int64 // how many configurations were in force
	faulty     atomic.Bool  // the files are not what is in force
}

// newLive reads the files for the first time.
func newLive(opts Options, log *slog.Logger) (*live, error) {
	l := &live{
		opts: opts, log: log, changed: make(chan struct{}, 1),
		source: source{file: opts.ConfigFile, optional: opts.ConfigOptional, current: Defaults()},
	}
	if err := l.readLevels(); err != nil {
		return nil, err
	}
	_, warnings, err := l.source.reload()
	logWarnings(log, warnings)
	if err != nil {
		return nil, err
	}
	if !l.source.read {
		log.Info("no configuration file, using the defaults", "config", opts.ConfigFile)
	}
	l.enforce()
	return l, nil
}

// settings returns those in force.
func (l *live) settings() objects.Settings { return *l.current.Load() }

// enforce puts in force what was read.
func (l *live) enforce() {
	s := l.source.current.Settings
	s.Version = l.opts.Version
	if s.Image == "" {
		s.Image = l.opts.RunnerImage
	}
	l.current.Store(&s)
	l.generation.Add(1)
	if l.pages != nil {
		l.pages.Configure(l.source.current.pages())
	}
	for _, path := range l.source.current.Unused {
		l.log.Debug("this part of the configuration is for files of SPICE viewers, which the pages do not offer yet",
			"path", path)
	}
}

// readLevels reads logging.properties.
func (l *live) readLevels() error {
	warnings, err := l.opts.Levels.read(l.opts.ConfigFile)
	if !slices.Equal(warnings, l.lastWarnings) {
		for _, w := range warnings {
			l.log.Warn("logging configuration: " + w)
		}
	}
	l.lastWarnings = warnings
	return err
}

// follow reads the files whenever they may have changed, until ctx is done.
func (l *live) follow(ctx context.Context) error {
	beside := filepath.Join(filepath.Dir(l.opts.ConfigFile), logging.File)
	configuration, levels := config.Watch(ctx, l.log, l.opts.ConfigFile), config.Watch(ctx, l.log, beside)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-configuration:
		case <-levels:
		}
		if ctx.Err() != nil {
			return nil
		}
		// Both, and the levels first: a ConfigMap brings both at once.
		if err := l.readLevels(); err != nil {
			l.log.Error("the levels of the log stay unchanged", "err", err)
		}
		l.reload()
	}
}

// reload reads the configuration again.
func (l *live) reload() {
	before := l.source.current
	changed, warnings, err := l.source.reload()
	l.faulty.Store(err != nil)
	if err != nil {
		if text := err.Error(); text != l.lastErr {
			l.lastErr = text
			l.logFaults(err)
		}
		return
	}
	l.lastErr = ""
	if !changed {
		return
	}
	logWarnings(l.log, warnings)
	l.enforce()
	after := l.source.current
	if after.Namespace != before.Namespace {
		l.log.Warn("the namespace changes only with a restart", "namespace", after.Namespace)
	}
	l.log.Info("the new configuration is in force", "config", l.opts.ConfigFile, "generation", l.generation.Load())
	select {
	case l.changed <- struct{}{}:
	default: // the last change has not been received yet
	}
}

// logFaults logs why a new configuration is not in force, fault by fault.
func (l *live) logFaults(err error) {
	const message = "the new configuration is rejected, the previous one stays in force"
	var faults yamlfile.Faults
	if !errors.As(err, &faults) {
		l.log.Error(message, "err", err)
		return
	}
	l.log.Error(message, "config", l.opts.ConfigFile, "faults", len(faults))
	for _, f := range faults {
		l.log.Error("fault in the configuration: " + f.Error())
	}
}
