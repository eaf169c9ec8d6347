package influence_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/influence"
	"vmop/authoring/sample"
	"vmop/vmspec"
	"vmop/vmtypes"
)

// made returns a plan with known dependencies.
func made(s vmspec.Spec) string {
	if s.Name == "" || s.Options["mode"] == "bad" {
		return "" // no plan
	}
	lines := []string{
		"type t", fmt.Sprint("    -smp ", s.MaximumCPUs), fmt.Sprint("    -m ", int64(s.MaximumRAM)), "    -nodefaults",
		"    -accel " + string(s.Accelerator), fmt.Sprint("    -mode ", s.Options["mode"]),
	}
	for i, d := range s.Drives {
		lines = append(lines, fmt.Sprintf("    -drive %d %s", i, d.File))
		if d.Bootindex != nil {
			lines = append(lines, fmt.Sprintf("    -boot %d", *d.Bootindex))
		}
	}
	if s.Display != nil {
		lines = append(lines, "    -vga")
	}
	return strings.Join(lines, "\n") + "\n"
}

func study(t *testing.T, spec vmspec.Spec, options ...vmtypes.Option) func(line string) string {
	t.Helper()
	r, err := influence.Study(spec, options, func(specs []vmspec.Spec) ([]string, error) {
		var list []string
		for _, s := range specs {
			list = append(list, made(s))
		}
		return list, nil
	})
	require.NoError(t, err)
	return func(line string) string {
		var found []string
		for _, f := range r.Of(line, made(spec)) {
			text := strings.TrimSpace(f.Path + " " + f.Value)
			if f.Doubtful {
				text += "?"
			}
			found = append(found, text)
		}
		return strings.Join(found, ", ")
	}
}

func TestWhatDependsOnWhat(t *testing.T) {
	t.Parallel()
	spec, err := sample.ParseVM([]byte("network: []\nmaximumCpus: 4\nmaximumRam: 2Gi\ndrives: [{file: /a, bootindex: " +
		"0}, {file: /b}]\n"))
	require.NoError(t, err)
	of := study(t, spec, vmtypes.Option{Name: "mode", Attr: vmtypes.Attr{Values: []any{"slow", "fast"}}})
	require.Equal(t, "vm.maximumCpus 4", of("    -smp 4"))
	require.Equal(t, "vm.maximumRam 2 GiB", of("-m 2147483648"))
	require.Equal(t, "", of("    -nodefaults"))
	require.Equal(t, "vm.accelerator auto", of("-accel auto"))
	require.Equal(t, "vm.drives[0].file /a", of("-drive 0 /a"))
	require.Equal(t, "vm.drives 2 items, vm.drives[1].file /b", of("-drive 1 /b"))
	require.Equal(t, "vm.drives[0].bootindex 0", of("-boot 0"))
	require.Equal(t, "vm.options.mode", of("-mode <nil>"))
	spec.Display = &vmspec.Display{}
	require.Equal(t, "vm.display given", study(t, spec)("-vga"))
	spec.Options = map[string]any{"mode": "good", "other": int64(1)}
	require.Equal(t, "vm.options.mode good", study(t, spec)("-mode good"))
}

// A field is reported as doubtful if no other value has a plan.
func TestDoubt(t *testing.T) {
	t.Parallel()
	r, err := influence.Study(vmspec.Spec{Name: "x"}, nil, func(specs []vmspec.Spec) ([]string, error) {
		list := make([]string, len(specs))
		for i, s := range specs {
			if s.Name == "x" {
				list[i] = "-a\n"
			}
		}
		return list, nil
	})
	require.NoError(t, err)
	require.Equal(t, []influence.Finding{{Path: "vm.name", Value: "x", Doubtful: true}}, r.Of("-a", "-a\n"))
	_, err = influence.Study(vmspec.Spec{}, nil, func([]vmspec.Spec) ([]string, error) { return nil, errors.New("no") })
	require.EqualError(t, err, "no")
	_, err = influence.Study(vmspec.Spec{}, nil, func([]vmspec.Spec) ([]string, error) { return nil, nil })
	require.ErrorContains(t, err, "0 plans for")
}

// Fields returns every field once, and does not change the VM.
func TestFields(t *testing.T) {
	t.Parallel()
	text := "network: [{type: user, ports: [{host: 1, guest: 2}]}]\ndrives: [{file: /a, bootindex: 0}]\ndisplay: " +
		"{spice: {port: 5900}}\noptions: {a: {b: [1]}}\n"
	spec, err := sample.ParseVM([]byte(text))
	require.NoError(t, err)
	same, err := sample.ParseVM([]byte(text))
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, f := range influence.Fields(spec, nil) {
		require.NotEmpty(t, f.Variants, f.Path)
		require.False(t, seen[f.Path], f.Path)
		seen[f.Path] = true
	}
	require.Equal(t, same, spec)
	for _, path := range []string{
		"vm.network[0].ports[0].host", "vm.drives[0].bootindex", "vm.display",
		"vm.display.spice", "vm.display.vnc", "vm.options.a", "vm.kernel", "vm.powerdownTimeout",
	} {
		require.True(t, seen[path], path)
	}
}

func TestHostFields(t *testing.T) {
	t.Parallel()
	host := sample.HostFacts{Files: []string{"/a", "/b"}}.Host()
	fields := influence.HostFields(host, influence.Queries{Files: []string{"/a"}})
	last := fields[len(fields)-1]
	require.Equal(t, "the file /a", last.Path)
	require.False(t, last.Host.Exists("/a"))
	require.True(t, last.Host.Exists("/b"))
	require.True(t, host.Exists("/a"))
	require.True(t, fields[0].Host.KVM)
	facts := sample.HostFacts{PCI: []vmtypes.PCIDevice{{Address: "0000:01:00.0", Driver: new("vfio-pci")}}}
	host = facts.Host()
	asked := influence.RecordQueries(&host)
	require.Nil(t, host.PCI("0000:02:00.0"))
	require.NotNil(t, host.PCI("0000:01:00.0"))
	require.Equal(t, []string{"0000:01:00.0"}, asked.PCI)
	different := map[string]vmtypes.Host{}
	for _, f := range influence.HostFields(host, *asked) {
		different[f.Path] = f.Host
	}
	other := different[`host.pci("0000:01:00.0")`].PCI("0000:01:00.0")
	require.Equal(t, "vfio-pci", *other.Driver)
	require.Equal(t, 0, *other.Node)
	require.NotNil(t, different["host.sev"].Confidential().SEV)
	require.True(t, different["host.tdx"].Confidential().TDX)
	require.NotEqual(t, host.Processors(), different["host.processors"].Processors())

	require.True(t, influence.Needs("  -a", "-a\n-a\n", "-a\n"))
	require.False(t, influence.Needs("-a", "-a\n", "-a\n-b\n"))
	require.False(t, influence.Needs("-a", "-a\n", ""), "without a plan the result is unknown")
}
