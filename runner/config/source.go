package config

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"

	"vmop/cloudinit"
	"vmop/internal/readfile"
	"vmop/internal/yamlfile"
)

// A Source is a configuration file that is read repeatedly: it keeps the last valid configuration. It must be
// used by one goroutine only.
type Source struct {
	file     string
	data     []byte // the content of the last read; nil if it failed
	config   *Config
	warnings []yamlfile.Warning
	err      error
	// generation is the generation in the file that was read last, even if the file is invalid.
	generation int64
}

// NewSource returns the source for a file. current is the configuration that was read from it; nil if the file
// wasn't read yet.
func NewSource(file string, current *Config) *Source {
	s := &Source{file: file, config: current}
	if current != nil {
		s.generation = current.Generation
	}
	return s
}

// Config returns the last valid configuration; nil if there never was one. It is not changed later, so it may be
// kept.
func (s *Source) Config() *Config { return s.config }

// Generation returns the generation in the file as it was read last, even if the file is invalid, so that errors
// are reported with their generation. If the generation is unreadable, it is the previous generation; 0 if there
// never was one.
func (s *Source) Generation() int64 { return s.generation }

// Warnings returns the warnings about Config.
func (s *Source) Warnings() []yamlfile.Warning { return s.warnings }

// Err returns the current error of the file, as returned by Reload.
func (s *Source) Err() error { return s.err }

// Reload reads the file. It reports whether the meaning of Config has changed; changes of comments, places or the
// order of keys alone don't count.
//
// If the file can't be read, or is invalid (an error of type yamlfile.Faults, see Load), Reload returns an error,
// and Config stays unchanged.
func (s *Source) Reload() (changed bool, err error) {
	data, err := readFile(s.file)
	if err != nil {
		s.data, s.err = nil, err
		return false, err
	}
	return s.Update(data)
}

// Update is like Reload with the content of the file. It keeps data; the caller must not change it later.
func (s *Source) Update(data []byte) (changed bool, err error) {
	if s.data != nil && bytes.Equal(s.data, data) {
		return false, s.err
	}
	s.data = data
	next, warnings, err := interpretFile(s.file, data)
	if next != nil && (err == nil || next.Generation > 0) {
		s.generation = next.Generation
	}
	if s.err = err; err != nil {
		return false, err
	}
	changed = s.config == nil || !s.config.equalTo(next)
	s.config, s.warnings = next, warnings
	return changed, nil
}

// equalTo reports whether two configurations have the same meaning.
func (c *Config) equalTo(other *Config) bool {
	a, b := *c, *other
	a.document, b.document, a.text, b.text = nil, nil, nil, nil
	a.CloudInit, b.CloudInit = nil, nil // YAML values also contain places
	if c.CloudInit != nil && other.CloudInit != nil &&
		(c.CloudInit.UserDataFile != other.CloudInit.UserDataFile ||
			c.CloudInit.NetworkConfigFile != other.CloudInit.NetworkConfigFile) {
		return false
	}
	return reflect.DeepEqual(a, b) && reflect.DeepEqual(c.cloudInitSeed(), other.cloudInitSeed())
}

// cloudInitSeed returns the guest's data for cloud-init; nil without data.
func (c *Config) cloudInitSeed() *cloudinit.Seed {
	if c.CloudInit == nil {
		return nil
	}
	seed, err := c.CloudInit.Seed(c.VM.Name)
	if err != nil {
		return nil // Parse has checked that there is no error
	}
	return &seed
}

// readFile reads a configuration file.
func readFile(file string) ([]byte, error) {
	data, err := readfile.ReadFile(file, yamlfile.LargestFile)
	var large *readfile.SizeError
	if errors.As(err, &large) {
		return nil, yamlfile.TooLarge(file, large.Size)
	}
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return data, nil
}
