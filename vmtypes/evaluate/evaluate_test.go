package evaluate

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/sample"
	"vmop/authoring/vmtypestest"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/sandbox"
)

const (
	goldens  = "../testdata/golden"
	examples = "../../examples/vmtypes"
)

// inProcess returns the plan of a sample, evaluated in this process.
func inProcess(t *testing.T, s *sample.Sample) (*plan.Plan, error) {
	t.Helper()
	library, err := vmtypes.Open(examples)
	require.NoError(t, err)
	defer library.Close()
	return s.Plan(t.Context(), library)
}

// A plan is identical, whether its type is evaluated in this process or in a separate process.
func TestPlansAreTheSame(t *testing.T) {
	t.Parallel()
	paths, err := sample.Find(goldens)
	require.NoError(t, err)
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), sample.Suffix), func(t *testing.T) {
			t.Parallel()
			s, err := sample.Read(path)
			require.NoError(t, err)
			want, err := inProcess(t, s)
			require.NoError(t, err)
			vmType, err := Find(examples, s.Type)
			require.NoError(t, err)
			got, err := vmType.Launch(t.Context(), s.VM, s.Host.Host())
			require.NoError(t, err)
			require.Equal(t, want, got)
			// The plan of the archived type is also identical. Stock types are evaluated in this process.
			g := NewGroup(t.Context())
			t.Cleanup(g.Close)
			found, err := g.Add(vmType)
			require.NoError(t, err)
			archive, err := found.Archive()
			require.NoError(t, err)
			kept := g.AddKept(archive)
			require.Equal(t, vmType.isStock(), kept.loaded != nil)
			elsewhere := g.AddKept(append(archive, "-- other.star --\nx = 1\n"...))
			require.Nil(t, elsewhere.loaded)
			for _, m := range []*Member{found, kept, elsewhere} {
				require.NoError(t, m.Load())
				require.NoError(t, m.CheckOptions(s.VM, s.Host.Host().Files))
				got, err := m.Launch(t.Context(), s.VM, s.Host.Host())
				require.NoError(t, err)
				require.Equal(t, want, got)
				require.Equal(t, want.Why(), got.Why())
			}
		})
	}
}

// variant returns a source with a type that takes everything from a stock type.
func variant(stock string) vmtypes.Source {
	return vmtypes.Source{Modules: map[string]string{
		"variant.star": "load(\"@vmtypes//" + stock + ".star\", stock = \"launch\", stock_options = \"options\")\n\n" +
			"options = stock_options\n\ndef launch(vm, host):\n    return stock(vm, host)\n",
	}}
}

// Errors have the same types and texts as in one process.
func TestErrorsAreTheSame(t *testing.T) {
	t.Parallel()
	for name, module := range map[string]string{
		"syntax":     "def launch(vm, host)\n",
		"names":      "x = one\ny = two\n",
		"evaluation": "def f(vm):\n    return vm.maximumRm\n\ndef launch(vm, host):\n    return f(vm)\n",
		"no launch":  "def lunch(vm, host):\n    pass\n",
		"options": "options = {'a': attr.int(minimum = 3, mandatory = True)}\n\ndef launch(vm, host):\n    return " +
			"part()\n",
		"faults": "def launch(vm, host):\n    return part(executable = 'qemu', options = [option('-S'), " +
			"option('-device', 'edu', {'chardev': 'c'})])\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := vmtypes.Source{Dir: "types", Modules: map[string]string{"my.star": module}}
			spec, err := sample.ParseVM([]byte("network: []\n"))
			require.NoError(t, err)
			host := sample.HostFacts{}.Host()
			_, got := Type{Source: source, Name: "my"}.Launch(t.Context(), spec, host)
			loaded, want := source.Library().Load(t.Context(), "my")
			if want == nil {
				_, want = loaded.Launch(t.Context(), spec, host)
			}
			require.EqualError(t, got, want.Error())
			var wantOne, gotOne *vmtypes.Error
			var wantAll, gotAll vmtypes.Errors
			var wantFaults, gotFaults *vmtypes.FaultsError
			require.Equal(t, errors.As(want, &wantOne), errors.As(got, &gotOne))
			require.Equal(t, errors.As(want, &wantAll), errors.As(got, &gotAll))
			require.Equal(t, len(wantAll), len(gotAll))
			require.Equal(t, errors.As(want, &wantFaults), errors.As(got, &gotFaults))
			if wantOne != nil {
				require.Equal(t, wantOne.Line, gotOne.Line)
				require.Equal(t, wantOne.Calls, gotOne.Calls)
			}
			require.Equal(t, wantFaults, gotFaults)
			var wantOptions, gotOptions *vmtypes.FieldsError
			require.Equal(t, errors.As(want, &wantOptions), errors.As(got, &gotOptions))
			require.Equal(t, wantOptions, gotOptions)
		})
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mine := filepath.Join(dir, "standard.star")
	require.NoError(t, os.WriteFile(mine, []byte("def launch(vm, host):\n    return part(executable = '/bin/true')\n"),
		0o600))
	spec, err := sample.ParseVM([]byte("network: []\n"))
	require.NoError(t, err)
	for name, want := range map[string]string{
		mine: "/bin/true", "standard": "/usr/bin/qemu-system-x86_64",
		"standard.star": "/usr/bin/qemu-system-x86_64",
	} {
		vmType, err := Find(dir, name)
		require.NoError(t, err)
		p, err := vmType.Launch(t.Context(), spec, sample.HostFacts{}.Host())
		require.NoError(t, err)
		require.Equal(t, want, p.QEMU.Executable, name)
		require.Equal(t, "standard", p.Type)
	}
	vmType, err := Find(dir, "standart")
	require.NoError(t, err)
	_, err = vmType.Launch(t.Context(), spec, sample.HostFacts{}.Host())
	require.ErrorContains(t, err, `there is no VM type "standart" (did you mean standard?)`)
}

func TestDiagnose(t *testing.T) {
	t.Parallel()
	source := vmtypes.Source{Modules: map[string]string{
		"good.star": "def launch(vm, host):\n    return part()\n", "library.star": "x = 1\n",
		"names.star": "x = one\ny = two\n", "launch.star": "def launch(vm):\n    return part()\n",
	}}
	require.NoError(t, Diagnose(t.Context(), source, "good.star"))
	require.NoError(t, Diagnose(t.Context(), source, "library.star"))
	var several vmtypes.Errors
	require.ErrorAs(t, Diagnose(t.Context(), source, "names.star"), &several)
	require.Len(t, several, 2)
	require.ErrorContains(t, Diagnose(t.Context(), source, "launch.star"), "launch must take (vm, host), not (vm)")
}

func TestDescribeAndTest(t *testing.T) {
	t.Parallel()
	source, err := vmtypes.ReadSource(examples)
	require.NoError(t, err)
	library, err := vmtypes.Open(examples)
	require.NoError(t, err)
	defer library.Close()
	want, err := library.Load(t.Context(), "virtiomem")
	require.NoError(t, err)
	got, err := Type{Source: source, Name: "virtiomem"}.Describe(t.Context())
	require.NoError(t, err)
	require.Equal(t, want.Describe(), got)
	var results, some []vmtypestest.Result
	require.NoError(t, Test(t.Context(), source, "virtiomem_test.star", nil, &results))
	require.NotEmpty(t, results)
	for _, r := range results {
		require.Empty(t, r.Failures)
	}
	one := regexp.MustCompile(regexp.QuoteMeta(results[0].Name()) + "$")
	require.NoError(t, Test(t.Context(), source, "virtiomem_test.star", one, &some))
	require.Len(t, some, 1)
	source.Modules["evil_test.star"] = "x = 'a' * 1000000000\n"
	require.ErrorIs(t, Test(t.Context(), source, "evil_test.star", nil, &results), sandbox.ErrMemory)
}

// The parent answers a type's questions about the host.
func TestQuestions(t *testing.T) {
	t.Parallel()
	source := vmtypes.Source{Modules: map[string]string{"my.star": `
def launch(vm, host):
    return part(
        executable = host.find(["/no", "/bin/true"]),
        options = [option("-name", f.executable) for f in host.firmware()] + [option("-k", str(host.exists("/" + "x" * 5000)))],
    )
`}}
	var asked []string
	host := vmtypes.Host{
		Exists:   func(path string) bool { asked = append(asked, path); return path == "/bin/true" },
		Firmware: func() []vmtypes.FirmwareDescriptor { return []vmtypes.FirmwareDescriptor{{Executable: "/fw"}} },
	}
	p, err := Type{Source: source, Name: "my"}.Launch(t.Context(), vmspec.Spec{}, host)
	require.NoError(t, err)
	require.Equal(t, "/bin/true -name /fw -k False", p.QEMU.Executable+" "+strings.Join(p.QEMU.Argv(), " "))
	require.Equal(t, []string{"/no", "/bin/true"}, asked, "a path that cannot be is not looked for")
	source.Modules["topology.star"] = `
def launch(vm, host):
    return part(executable = "/bin/true", options = [
        option("-name", "%s %s %s" % (host.cpus, [(n.number, n.cpus) for n in host.nodes], host.hugePages)),
    ])
`
	topology := Type{Source: source, Name: "topology"}
	p, err = topology.Launch(t.Context(), vmspec.Spec{}, host)
	require.NoError(t, err)
	require.Equal(t, "(0, 1, 2, 3, 4, 5, 6, 7) [(0, (0, 1, 2, 3, 4, 5, 6, 7))] {2097152: 0, 1073741824: 0}",
		p.QEMU.Argv()[1], "made up, as it isn't known")
	host.Topology = func() vmtypes.Topology {
		return vmtypes.Topology{
			CPUs: []int{2, 5}, Nodes: []vmtypes.Node{{Number: 1, CPUs: []int{5}}},
			HugePages: map[int64]int64{2 << 20: 9},
		}
	}
	p, err = topology.Launch(t.Context(), vmspec.Spec{}, host)
	require.NoError(t, err)
	require.Equal(t, "(2, 5) [(1, (5,))] {2097152: 9}", p.QEMU.Argv()[1])
	source.Modules["hardware.star"] = `
def launch(vm, host):
    found = [host.pci("0000:0%d:00.0" % n) for n in range(3)]
    return part(executable = "/bin/true", options = [option("-name", "%s %s %s %s" % (
        [(p.number, p.core) for p in host.processors], [d and d.driver for d in found], host.sev and host.sev.cbitpos, host.tdx,
    ))])
`
	hardware := Type{Source: source, Name: "hardware"}
	p, err = hardware.Launch(t.Context(), vmspec.Spec{}, host)
	require.NoError(t, err)
	require.Equal(t, "[(2, 2), (5, 5)] [None, None, None] None False", p.QEMU.Argv()[1])
	host.PCI = func(address string) *vmtypes.PCIDevice {
		return map[string]*vmtypes.PCIDevice{"0000:01:00.0": {Driver: new("vfio-pci")}}[address]
	}
	host.Processors = func() []vmtypes.Processor { return []vmtypes.Processor{{Number: 2, Core: 1}} }
	host.Confidential = func() vmtypes.Confidential {
		return vmtypes.Confidential{SEV: &vmtypes.SEV{CBitPos: 51}, TDX: true}
	}
	p, err = hardware.Launch(t.Context(), vmspec.Spec{}, host)
	require.NoError(t, err)
	require.Equal(t, `[(2, 1)] [None, "vfio-pci", None] 51 True`, p.QEMU.Argv()[1])
	source.Modules["storage.star"] = `
def launch(vm, host):
    asked = [host.directIO("/a"), host.directIO("/b", format = "qcow2"), host.directIO("/c"), host.aio("/qemu"), host.aio("/other")]
    return part(executable = "/bin/true", options = [option("-name", str(asked))])
`
	storage := Type{Source: source, Name: "storage"}
	p, err = storage.Launch(t.Context(), vmspec.Spec{}, host)
	require.NoError(t, err)
	require.Equal(t, "[None, None, None, None, None]", p.QEMU.Argv()[1], "unknown")
	host.DirectIO = func(path, format string) *bool {
		if path == "/c" {
			return nil
		}
		return new(path+format == "/bqcow2")
	}
	host.AIO = func(program string) []string {
		if program != "/qemu" {
			return nil
		}
		return []string{"threads", "native"}
	}
	p, err = storage.Launch(t.Context(), vmspec.Spec{}, host)
	require.NoError(t, err)
	require.Equal(t, `[False, True, None, ("threads", "native"), None]`, p.QEMU.Argv()[1])
	host.Firmware = nil
	p, err = Type{Source: source, Name: "my"}.Launch(t.Context(), vmspec.Spec{}, host)
	require.NoError(t, err)
	require.Equal(t, []string{"-k", "False"}, p.QEMU.Argv())
}

// A vm section is transferred unchanged: integers and floating-point numbers stay distinct.
func TestWireSpec(t *testing.T) {
	t.Parallel()
	spec, err := sample.ParseVM([]byte("network: []\n"))
	require.NoError(t, err)
	spec.Options = map[string]any{
		"whole": int64(1), "large": int64(math.MaxInt64), "point": 1.0, "tiny": 5e-324, "huge": 1e300,
		"infinite": math.Inf(1),
		"less":     math.Inf(-1), "none": nil, "yes": true, "text": "1.0", "list": []any{
			int64(1), 1.0,
			[]any{},
		}, "map": map[string]any{"a.b": -0.5},
	}
	text, err := json.Marshal(newWireSpec(spec))
	require.NoError(t, err)
	var back wireSpec
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, spec, back.Spec)
	text, err = json.Marshal(newWireSpec(vmspec.Spec{}))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, vmspec.Spec{}, back.Spec)
}

// FuzzReply reads arbitrary texts as the reply of an untrusted process.
func FuzzReply(f *testing.F) {
	for _, text := range []string{
		`{}`, `{"Plan":{}}`, `{"Failure":{}}`, `{"Failure":{"Errors":[null]}}`,
		`{"Failure":{"Errors":[null,null],"Doing":"x: "}}`,
		`{"Failure":{"Errors":[{"Line":1,"Column":-5,"Source":"x\u0000y"}]}}`,
		`{"Failure":{"Errors":[{"Line":3,"Column":99999999999,"Source":"x"}]}}`,
		`{"Plan":{"type":"x","qemu":{"executable":"/q","args":[{"flag":"-x","list":true,"properties":[{"key":"a","descriptor":"d"}]}]},"rules":[{"cpus":{}}]}}`,
		`{"Plan":{"rules":[{"gravity":{}}]}}`, `{"Plan":{"taps":[{"origin":["a:1 f"]}]},"Failure":{"Faults":{"Faults":[{}]}}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var r reply
		if json.Unmarshal(data, &r) != nil {
			return
		}
		err := r.Failure.asError()
		if err != nil {
			require.Equal(t, err.Error(), newFailure(err).asError().Error())
		}
		if r.Plan == nil {
			require.Error(t, orMissing(err))
			return
		}
		if orFaults(r.Plan, nil, err) == nil {
			require.Empty(t, r.Plan.Check())
			require.NotContains(t, strings.Join(r.Plan.QEMU.Argv(), " "), "\x00")
		}
		_, _, _ = r.Plan.Text(), r.Plan.Why(), r.Plan.Shell()
	})
}

// BenchmarkLaunch measures an evaluation in a separate process.
func BenchmarkLaunch(b *testing.B) {
	spec, err := sample.ParseVM([]byte("network: []\n"))
	require.NoError(b, err)
	vmType := Type{Source: variant("standard"), Name: "variant"}
	for b.Loop() {
		_, err := vmType.Launch(b.Context(), spec, sample.HostFacts{}.Host())
		require.NoError(b, err)
	}
}
