package convert

import (
	"cmp"
	"encoding/xml"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/sample"
	"vmop/runner/config"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

var update = flag.Bool("update", false, "write the expected texts instead of comparing")

// report returns the findings as text.
func report(r *Result) string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%-8s %4d: %s: %s\n", f.Effect, f.Line, f.Path, f.Message)
		if f.Hint != "" {
			fmt.Fprintf(&b, "               -> %s\n", f.Hint)
		}
	}
	for i, step := range r.NextSteps(refuseFile) {
		fmt.Fprintf(&b, "next %d: %s\n", i+1, step)
	}
	return b.String()
}

// refuseFile plays a user who may not write to libvirt's and Incus' folders.
func refuseFile(file string, write bool) string {
	if write && strings.HasPrefix(file, "/var/lib/") {
		return "you may not write to " + file
	}
	return ""
}

// golden compares a text with the content of a file.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// planned returns the plan of a configuration.
func planned(t *testing.T, text []byte) (*config.Config, *plan.Plan) {
	t.Helper()
	cfg, warnings, err := config.Parse("made.yaml", text)
	require.NoError(t, err)
	require.Empty(t, warnings)
	library, err := vmtypes.Open("")
	require.NoError(t, err)
	vmType, err := library.Load(t.Context(), cfg.VMType)
	require.NoError(t, err)
	cfg.VM.UUID = cmp.Or(cfg.VM.UUID, "252938de-ec18-4ad3-89ed-64a283a7cc98") // tap names are derived from it
	p, err := vmType.Launch(t.Context(), cfg.VM.WithDefaults().WithoutNBD(), sample.HostFacts{}.Host())
	require.NoError(t, err)
	return cfg, p
}

// samples returns the definitions with the parts to omit.
func samples() map[string]Options {
	return map[string]Options{
		"libvirt/windows11.xml": {}, "libvirt/oldpc.xml": {},
		"libvirt/network.xml":        {},
		"quickemu/ubuntu-24.04.conf": {}, "quickemu/windows-11.conf": {}, "quickemu/macos.conf": {},
		"lima/web/lima.yaml": {Bridges: map[string]string{"shared": "br0"}}, "lima/template.yaml": {},
		"lima/mounts.yaml": {},
		"incus/db.yaml":    {}, "incus/blocked.yaml": {}, "incus/container.yaml": {},
		"libvirt/network.xml+": {Bridges: map[string]string{"lab": "br-lab"}, Without: []string{
			"memoryBacking/hugepages", "devices/disk[1]", "devices/disk[3]", "devices/disk[4]", "devices/filesystem",
			"devices/interface[2]", "devices/hostdev", "devices/warpdrive", "qemu:commandline",
		}},
	}
}

// Each sample results in the stored configuration and report without passwords, and the stock type accepts the
// configuration.
func TestSamples(t *testing.T) {
	t.Parallel()
	for name, o := range samples() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join("testdata", strings.TrimSuffix(name, "+"))
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			r, err := Convert("/definitions/"+strings.TrimSuffix(name, "+"), text, o)
			require.NoError(t, err)
			base := filepath.Join("testdata", name)
			golden(t, base+".report", report(r))
			golden(t, base+".config", string(r.Config))
			for _, secret := range []string{"correct-horse", "hunter22", "secretword"} {
				require.NotContains(t, report(r), secret)
				if r.Format == Libvirt {
					require.NotContains(t, string(r.Config), secret)
				}
			}
			if r.Count(Blocks) > 0 {
				require.Nil(t, r.Config)
				return
			}
			cfg, p := planned(t, r.Config)
			if r.Format == Libvirt {
				asked(t, text, o, cfg.VM, p.Text())
			}
		})
	}
}

// documented returns the domains and configurations in the documentation.
func documented(t *testing.T) (domains, configs []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/vm-types/from-libvirt.md")
	require.NoError(t, err)
	for _, block := range strings.Split(string(page), "```xml\n")[1:] {
		domain, rest, _ := strings.Cut(block, "```")
		_, rest, _ = strings.Cut(rest, "```yaml\n")
		config, _, _ := strings.Cut(rest, "```")
		domains, configs = append(domains, domain), append(configs, config)
	}
	return domains, configs
}

// The documentation contains the configurations that result from its domains.
func TestDocumentedDomains(t *testing.T) {
	t.Parallel()
	domains, configs := documented(t)
	require.Len(t, domains, 1) // testdata contains a domain of Windows
	for i, domain := range domains {
		r, err := Convert("/definitions/web.xml", []byte(domain), Options{})
		require.NoError(t, err)
		require.Zero(t, r.Count(Blocks), report(r))
		made, p := planned(t, r.Config)
		want, same := planned(t, []byte(configs[i]))
		require.Equal(t, want.VM, made.VM)
		require.Equal(t, want.VMType, made.VMType)
		require.Equal(t, same.Text(), p.Text())
		asked(t, []byte(domain), Options{}, made.VM, p.Text())
	}
}

// asked compares a plan with the settings of a domain.
func asked(t *testing.T, text []byte, o Options, vm vmspec.Spec, plan string) {
	t.Helper()
	var domain struct {
		Name, UUID string
		VCPU       string `xml:"vcpu"`
		OS         struct {
			Type struct {
				Machine string `xml:"machine,attr"`
			} `xml:"type"`
		} `xml:"os"`
		Devices struct {
			Disks []struct {
				Source struct {
					File     string `xml:"file,attr"`
					Dev      string `xml:"dev,attr"`
					Protocol string `xml:"protocol,attr"`
					Name     string `xml:"name,attr"`
				} `xml:"source"`
			} `xml:"disk"`
			Interfaces []struct {
				MAC struct {
					Address string `xml:"address,attr"`
				} `xml:"mac"`
			} `xml:"interface"`
		} `xml:"devices"`
	}
	require.NoError(t, xml.Unmarshal(text, &domain))
	if machine := domain.OS.Type.Machine; !strings.Contains(machine, "rhel") {
		require.Contains(t, plan, "-machine "+machine+",")
	}
	if cpus := domain.VCPU; cpus != "1" {
		require.Contains(t, plan, "maxcpus="+cpus)
	}
	left := func(element string, i, of int) bool {
		path := "devices/" + element
		if of > 1 {
			path += fmt.Sprintf("[%d]", i+1)
		}
		return slices.Contains(o.Without, path)
	}
	drives := 0
	for i, disk := range domain.Devices.Disks {
		if left("disk", i, len(domain.Devices.Disks)) {
			continue
		}
		drives++
		switch {
		case disk.Source.Protocol == "nbd":
			last := vm.Drives[len(vm.Drives)-1]
			require.Equal(t, disk.Source.Name, last.NBD.Export)
		default:
			require.Contains(t, plan, disk.Source.File+disk.Source.Dev+disk.Source.Name)
		}
	}
	require.Len(t, vm.Drives, drives)
	cards := 0
	for i, card := range domain.Devices.Interfaces {
		if !left("interface", i, len(domain.Devices.Interfaces)) {
			cards++
			require.Contains(t, plan, "mac="+card.MAC.Address)
		}
	}
	require.Len(t, vm.Network, cards)
}
