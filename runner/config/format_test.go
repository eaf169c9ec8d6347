package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzFormat checks that Parse reads back the same configuration from the output of Format, for every sample and any
// fuzzed input.
func FuzzFormat(f *testing.F) {
	samples, err := filepath.Glob(filepath.Join("testdata", "*.yaml"))
	require.NoError(f, err)
	for _, sample := range append(samples, filepath.Join("..", "..", "examples", "standalone", "config.yaml")) {
		text, err := os.ReadFile(sample)
		require.NoError(f, err)
		f.Add(text)
	}
	for _, text := range []string{
		"/Runner: {vm: {name: a, network: [], drives: [], options: {a: 1.0, b: '1', c: 1e20, d: [], e: {}, f: null, g: '', '1': on, ? '' : ' '}}}",
		"/Runner: {cloudInit: {}, generation: 5, resetCounter: 0, vm: {name: \"\\\"on\", uuid: 00000000-0000-4000-8000-000000000001, powerdownTimeout: 0}}",
		"/Runner: {cloudInit: {userData: '#!/bin/sh\n  true'}, vm: {name: 'yes', maximumRam: 1536 MiB, display: {spice: {usbRedirects: 0}, vnc: {}}}}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, _, err := Parse("given.yaml", text)
		if err != nil {
			return
		}
		again, err := c.Format()
		require.NoError(t, err)
		same, warnings, err := Parse("formatted.yaml", again)
		require.NoError(t, err, "%s", again)
		require.Empty(t, warnings)
		seed, wantSeed := seedOf(t, same), seedOf(t, c)
		require.Equal(t, wantSeed, seed)
		for _, c := range []*Config{c, same} {
			c.CloudInit, c.document, c.text = nil, nil, nil
		}
		require.Equal(t, c, same, "%s", again)
	})
}

func seedOf(t *testing.T, c *Config) any {
	t.Helper()
	if c.CloudInit == nil {
		return nil
	}
	seed, err := c.CloudInit.Seed(c.VM.Name)
	require.NoError(t, err)
	return seed
}
