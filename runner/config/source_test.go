package config

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/internal/yamlfile"
	"vmop/vmspec"
)

// The steps are successive contents of the file.
func TestSource(t *testing.T) {
	t.Parallel()
	s := NewSource("config.yaml", nil)
	for _, step := range []struct {
		about, text string
		changed     bool
		err         string
		cpus        int
	}{
		{"the first", "/Runner: {vm: {name: test, currentCpus: 1, maximumCpus: 4}}", true, "", 1},
		{"read again", "/Runner: {vm: {name: test, currentCpus: 1, maximumCpus: 4}}", false, "", 1},
		{"another order", "# moved\n/Runner: {vm: {maximumCpus: 4, currentCpus: 1, name: test}}", false, "", 1},
		{"another value", "/Runner: {vm: {name: test, currentCpus: 2, maximumCpus: 4}}", true, "", 2},
		{
			"a fault", "/Runner:\n  vm: {name: test, curentCpus: 3}", false,
			"config.yaml:2:20: vm.curentCpus: unknown key (did you mean currentCpus?)", 2,
		},
		{
			"the same fault", "/Runner:\n  vm: {name: test, curentCpus: 3}", false,
			"config.yaml:2:20: vm.curentCpus: unknown key (did you mean currentCpus?)", 2,
		},
		{"half a file", "/Runner: {vm", false, "config.yaml:1:1: ", 2},
		{"an empty file", "", false, "config.yaml:1:1: the file is empty", 2},
		{"as before the fault", "/Runner: {vm: {name: test, currentCpus: 2, maximumCpus: 4}}", false, "", 2},
		{"data for cloud-init", "/Runner: {cloudInit: {userData: {a: 1}}, vm: {name: test, currentCpus: 2, maximumCpus: 4}}", true, "", 2},
		{"the same, elsewhere", "\n\n/Runner: {cloudInit:   {userData: {a: 1}}, vm: {name: test, currentCpus: 2, maximumCpus: 4}}", false, "", 2},
		{"other data", "/Runner: {cloudInit: {userData: {a: 2}}, vm: {name: test, currentCpus: 2, maximumCpus: 4}}", true, "", 2},
		{"the data are gone", "/Runner: {vm: {name: test, currentCpus: 2, maximumCpus: 4}}", true, "", 2},
		{
			"no network instead of the default",
			"/Runner: {vm: {name: test, currentCpus: 2, maximumCpus: 4, network: []}}", true, "", 2,
		},
	} {
		changed, err := s.Update([]byte(step.text))
		require.Equal(t, step.changed, changed, step.about)
		require.Equal(t, err, s.Err(), step.about)
		if step.err == "" {
			require.NoError(t, err, step.about)
		} else {
			require.ErrorContains(t, err, step.err, step.about)
			require.ErrorAs(t, err, new(yamlfile.Faults), step.about)
		}
		require.Equal(t, step.cpus, s.Config().VM.CurrentCPUs, step.about)
	}
}

// The generation is known even for a file with errors, as far as the file can be read.
func TestGeneration(t *testing.T) {
	t.Parallel()
	s := NewSource("config.yaml", nil)
	require.Zero(t, s.Generation())
	for _, step := range []struct {
		text    string
		changed bool
		faulty  bool
		want    int64
	}{
		{"/Runner: {generation: 3, vm: {name: test}}", true, false, 3},
		{"/Runner: {generation: 4, vm: {name: test}}", true, false, 4},
		{"/Runner: {generation: 5, vm: {name: test, firmware: none}}", false, true, 5},
		{"/Runner: {generation: 6, vm: {nam", false, true, 5},
		{"/Runner: {generation: -6, vm: {name: test}}", false, true, 5},
		{"/Runner: {generation: 7, vm: {name: test}}", true, false, 7},
		{"/Runner: {vm: {name: test}}", true, false, 0},
	} {
		changed, err := s.Update([]byte(step.text))
		require.Equal(t, step.faulty, err != nil, step.text)
		require.Equal(t, step.changed, changed, step.text)
		require.Equal(t, step.want, s.Generation(), step.text)
	}
	require.EqualValues(t, 9, NewSource("config.yaml", &Config{Generation: 9}).Generation())
}

// Positions refer to the current file. Otherwise errors found later would point to the wrong place.
func TestSourceKeepsNewPlaces(t *testing.T) {
	t.Parallel()
	s := NewSource("config.yaml", nil)
	for text, at := range map[string]string{
		"/Runner: {vm: {name: test}}":   "config.yaml:1:22: ",
		"\n/Runner: {vm: {name: test}}": "config.yaml:2:22: ",
	} {
		_, err := s.Update([]byte(text))
		require.NoError(t, err)
		err = s.Config().Locate([]vmspec.Fault{{Path: "vm.name", Message: "is taken"}})
		require.EqualError(t, err, at+"vm.name: is taken")
	}
}

func TestSourceReloads(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	const text = "/Runner: {template: Standard-VM-latest.ftl.yaml, vm: {name: test}}"
	f.write("config.yaml", text)
	loaded, _, err := Load(f.at("config.yaml"))
	f.do(err)
	s := NewSource(f.at("config.yaml"), loaded)
	changed, err := s.Reload()
	require.NoError(t, err)
	require.False(t, changed, "it is as it was when it was loaded")
	require.Len(t, s.Warnings(), 1)
	f.remove("config.yaml")
	changed, err = s.Reload()
	require.ErrorIs(t, err, os.ErrNotExist)
	require.False(t, changed)
	require.Equal(t, "test", s.Config().VM.Name)
	f.write("config.yaml", text)
	changed, err = s.Reload()
	require.NoError(t, err)
	require.False(t, changed)
	f.write("config.yaml", text+strings.Repeat(" ", yamlfile.LargestFile))
	_, err = s.Reload()
	require.ErrorContains(t, err, "the maximum is 1 MiB")
}
