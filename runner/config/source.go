package config

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"

	"vmop/cloudinit"
	"vmop/regular"
	"vmop/yamlfile"
)

// A Source is a configuration file that is read again and again: it keeps what
// the file said when it was last without fault. One goroutine uses it.
type Source struct {
	file     string
	data     []byte // what was read last; nil: nothing could be read
	config   *Config
	warnings []yamlfile.Warning
	err      error
	// generation is what the file says that was read last, also if it has faults.
	generation int64
}

// NewSource returns the source for a file from which current was read; nil if
// nothing was read yet.
func NewSource(file string, current *Config) *Source {
	s := &Source{file: file, config: current}
	if current != nil {
		s.generation = current.Generation
	}
	return s
}

// Config returns the configuration that was last without fault; nil if there
// never was one. It is not changed later, so it may be kept.
func (s *Source) Config() *Config { return s.config }

// Generation returns the file's generation, as it was read last: also of a file
// that has faults, so that they are reported with that generation. It is the one
// before if none can be made out, and 0 if there never was one.
func (s *Source) Generation() int64 { return s.generation }

// Warnings returns those of Config's reading.
func (s *Source) Warnings() []yamlfile.Warning { return s.warnings }

// Err returns what is wrong with the file now, as Reload did last.
func (s *Source) Err() error { return s.err }

// Reload reads the file. It reports whether Config means something else now: it
// does not if only comments, places or the order of keys have changed.
//
// A file that can't be read, or has faults (an error of type yamlfile.Faults, see Load),
// is an error, and Config stays as it was.
func (s *Source) Reload() (changed bool, err error) {
	data, err := readFile(s.file)
	if err != nil {
		s.data, s.err = nil, err
		return false, err
	}
	return s.Update(data)
}

// Update is Reload with what the file holds; data is kept, and must not be changed afterwards.
func (s *Source) Update(data []byte) (changed bool, err error) {
	if s.data != nil && bytes.Equal(s.data, data) {
		return false, s.err
	}
	s.data = data
	next, warnings, err := interpret(s.file, data)
	if next != nil && (err == nil || next.Generation > 0) {
		s.generation = next.Generation
	}
	if s.err = err; err != nil {
		return false, err
	}
	changed = s.config == nil || !s.config.same(next)
	s.config, s.warnings = next, warnings
	return changed, nil
}

// same reports whether two configurations mean the same.
func (c *Config) same(other *Config) bool {
	a, b := *c, *other
	a.document, b.document, a.text, b.text = nil, nil, nil, nil
	a.CloudInit, b.CloudInit = nil, nil // what is YAML to us has places as well
	if c.CloudInit != nil && other.CloudInit != nil &&
		(c.CloudInit.UserDataFile != other.CloudInit.UserDataFile ||
			c.CloudInit.NetworkConfigFile != other.CloudInit.NetworkConfigFile) {
		return false
	}
	return reflect.DeepEqual(a, b) && reflect.DeepEqual(c.seed(), other.seed())
}

// seed returns what the guest gets for cloud-init; nil if nothing.
func (c *Config) seed() *cloudinit.Seed {
	if c.CloudInit == nil {
		return nil
	}
	seed, err := c.CloudInit.Seed(c.VM.Name)
	if err != nil {
		return nil // Parse has seen that there is no error
	}
	return &seed
}

// readFile reads a configuration file.
func readFile(file string) ([]byte, error) {
	data, err := regular.ReadFile(file, yamlfile.LargestFile)
	var large *regular.SizeError
	if errors.As(err, &large) {
		return nil, yamlfile.TooLarge(file, large.Size)
	}
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return data, nil
}
