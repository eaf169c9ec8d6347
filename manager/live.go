package manager

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"

	"vmop/internal/javalogging"
	"vmop/internal/yamlfile"
	"vmop/manager/vm/objects"
	"vmop/manager/web/serve"
	"vmop/runner/config"
)

// live is the current configuration. It follows the files: a valid new file replaces the configuration, and an
// invalid file is logged and ignored.
type live struct {
	opts         Options
	log          *slog.Logger
	source       source
	lastErr      string        // last logged error
	lastWarnings []string      // last logged warnings for logging.properties
	changed      chan struct{} // receives when settings has changed
	pages        *serve.Pages  // follow the configuration; nil during the first read

	current    atomic.Pointer[objects.Settings]
	generation atomic.Int64 // number of configurations so far
	faulty     atomic.Bool  // the files differ from the current configuration
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
	_, warnings, err := l.source.reloadFile()
	logWarnings(log, warnings)
	if err != nil {
		return nil, err
	}
	if !l.source.read {
		log.Info("no configuration file, using the defaults", "config", opts.ConfigFile)
	}
	l.applySettings()
	return l, nil
}

// currentSettings returns the current settings.
func (l *live) currentSettings() objects.Settings { return *l.current.Load() }

// applySettings activates the configuration that was read.
func (l *live) applySettings() {
	s := l.source.current.Settings
	s.Version = l.opts.Version
	if s.Image == "" {
		s.Image = l.opts.RunnerImage
	}
	l.current.Store(&s)
	l.generation.Add(1)
	if l.pages != nil {
		l.pages.Configure(l.source.current.pagesConfig())
	}
	for _, path := range l.source.current.Unused {
		l.log.Debug("this part of the configuration is for files of SPICE viewers, which the pages do not offer yet",
			"path", path)
	}
}

// readLevels reads logging.properties.
func (l *live) readLevels() error {
	warnings, err := l.opts.Levels.readLevels(l.opts.ConfigFile)
	if !slices.Equal(warnings, l.lastWarnings) {
		for _, w := range warnings {
			l.log.Warn("logging configuration: " + w)
		}
	}
	l.lastWarnings = warnings
	return err
}

// followFiles reads the files whenever they may have changed, until ctx is done.
func (l *live) followFiles(ctx context.Context) error {
	beside := filepath.Join(filepath.Dir(l.opts.ConfigFile), javalogging.File)
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
		// Read both files, the levels first, because a ConfigMap updates both files together.
		if err := l.readLevels(); err != nil {
			l.log.Error("the levels of the log stay unchanged", "err", err)
		}
		l.reloadConfiguration()
	}
}

// reloadConfiguration reads the configuration again.
func (l *live) reloadConfiguration() {
	before := l.source.current
	changed, warnings, err := l.source.reloadFile()
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
	l.applySettings()
	after := l.source.current
	if after.Namespace != before.Namespace {
		l.log.Warn("the namespace changes only with a restart", "namespace", after.Namespace)
	}
	l.log.Info("the new configuration is active", "config", l.opts.ConfigFile, "generation", l.generation.Load())
	select {
	case l.changed <- struct{}{}:
	default: // the previous change has not been received yet
	}
}

// logFaults logs why a new configuration was rejected, one line per error.
func (l *live) logFaults(err error) {
	const message = "the new configuration is rejected, the previous configuration stays active"
	var faults yamlfile.Faults
	if !errors.As(err, &faults) {
		l.log.Error(message, "err", err)
		return
	}
	l.log.Error(message, "config", l.opts.ConfigFile, "faults", len(faults))
	for _, f := range faults {
		l.log.Error("error in the configuration: " + f.Error())
	}
}
