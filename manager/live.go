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
	"vmop/runner/config"
	"vmop/yamlfile"
)

// live is the configuration that holds now. It follows the files: a good one takes
// the place of the last, a faulty one is told about and changes nothing.
type live struct {
	opts         Options
	log          *slog.Logger
	source       source
	lastErr      string        // what the log was told last
	lastWarnings []string      // likewise, of logging.properties
	changed      chan struct{} // settings returns something else

	current    atomic.Pointer[objects.Settings]
	generation atomic.Int64 // how many configurations were good
	faulty     atomic.Bool  // the files say something else than what holds
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
	noteWarnings(log, warnings)
	if err != nil {
		return nil, err
	}
	if !l.source.read {
		log.Info("there is no configuration, the defaults hold", "config", opts.ConfigFile)
	}
	l.take()
	return l, nil
}

// settings returns those that hold now.
func (l *live) settings() objects.Settings { return *l.current.Load() }

// take makes what was read hold.
func (l *live) take() {
	s := l.source.current.Settings
	s.Version = l.opts.Version
	if s.Image == "" {
		s.Image = l.opts.RunnerImage
	}
	l.current.Store(&s)
	l.generation.Add(1)
	for _, path := range l.source.current.Unused {
		l.log.Debug("this part of the configuration is for the web GUI, which is not there yet", "path", path)
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
			l.log.Error("the levels of the log stay as they are", "err", err)
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
		if said := err.Error(); said != l.lastErr {
			l.lastErr = said
			l.refuse(err)
		}
		return
	}
	l.lastErr = ""
	if !changed {
		return
	}
	noteWarnings(l.log, warnings)
	l.take()
	after := l.source.current
	if after.Namespace != before.Namespace {
		l.log.Warn("another namespace is managed after a restart only", "namespace", after.Namespace)
	}
	l.log.Info("the new configuration holds", "config", l.opts.ConfigFile, "generation", l.generation.Load())
	select {
	case l.changed <- struct{}{}:
	default: // it will be seen
	}
}

// refuse says why a new configuration does not hold, fault by fault.
func (l *live) refuse(err error) {
	const message = "the new configuration is not taken, the last good one holds"
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
