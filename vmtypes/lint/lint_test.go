package lint_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmtypes/lint"
)

// some is a QEMU that knows little.
type some struct{}

func (some) Name() string    { return "QEMU 1.0" }
func (some) Flags() []string { return []string{"-machine", "-device", "-name"} }
func (some) Values(flag string) []string {
	if flag == "-device" {
		return []string{"virtio-rng-pci"}
	}
	return nil
}

func (some) Properties(flag, _ string) []string {
	if flag == "-device" {
		return []string{"id", "max-bytes"}
	}
	return nil
}

// names returns the rules of findings.
func names(findings []lint.Finding) []string {
	list := []string{}
	for _, f := range findings {
		list = append(list, f.Rule)
	}
	return slices.Compact(list)
}

// Each rule finds its bad example, and leaves its good one alone.
func TestEachRule(t *testing.T) {
	t.Parallel()
	around := lint.Surroundings{Machine: some{}}
	for _, r := range lint.Rules() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			require.NotEmpty(t, r.Reason)
			if r.Bad == "" {
				return // it takes more than a module
			}
			require.Contains(t, names(lint.File("x.star", r.Bad, around)), r.Name)
			require.NotContains(t, names(lint.File("x.star", r.Good, around)), r.Name)
			if r.Name == "unknown-rule" {
				return
			}
			for _, f := range lint.File("x.star", r.Bad, around) {
				if f.Rule != r.Name {
					continue
				}
				require.NotEmpty(t, f.Message)
				require.Positive(t, f.Line)
				require.Positive(t, f.Column)
				require.True(t, f.EndLine > f.Line || f.EndColumn > f.Column, "%v has a length", f)
			}
		})
	}
}
