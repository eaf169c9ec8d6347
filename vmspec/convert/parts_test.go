package convert

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"vmop/vmspec"
)

// wholes returns complete definitions, by the first word of a part's name. The parts in testdata/parts replace PART in
// them.
func wholes() map[string]string {
	const domain = "<domain type='kvm'><name>x</name><memory unit='MiB'>64</memory>"
	with := func(machine, features string) string {
		return domain + "<os><type arch='x86_64' machine='" + machine + "'>hvm</type></os><features><acpi/><apic/>" +
			features + "</features><cpu mode='host-passthrough'/><devices>\nPART</devices></domain>"
	}
	return map[string]string{
		"device":  with("q35", ""),
		"pc":      with("pc", ""),
		"windows": with("q35", "<hyperv/>"),
		"microvm": with("microvm", ""),
		"domain":  domain + "<os><type>hvm</type></os>\nPART</domain>",
		"os":      domain + "<os>\nPART</os></domain>",
		"whole":   "PART",

		"quickemu": "guest_os=linux\ndisk_img=d.qcow2\nPART",
		"any":      "disk_img=d.qcow2\nPART",
		"template": "images: [{location: 'https://example.org/a.img'}]\nPART",
		"bare":     "plain: true\nPART",
		"instance": "images: []\nPART",
		"incus":    "devices: {root: {type: disk, path: /, pool: default}}\nconfig:\n  image.release: a\nPART",
		"devices":  "config: {volatile.eth0.hwaddr: '02:00:00:00:00:01'}\ndevices:\nPART",
	}
}

// fileOf returns the file and format of a definition, by the first word of its part's name.
func fileOf(kind string) (file string, format Format) {
	switch kind {
	case "quickemu", "any":
		return "/d/vm.conf", Quickemu
	case "template", "bare":
		return "/d/vm.yml", Lima
	case "instance":
		return "/d/vm/lima.yaml", Lima
	case "incus", "devices":
		return "/d/vm.yaml", Incus
	}
	return "/d/vm.xml", Libvirt
}

// summary returns the findings of a report that the other report lacks: paths for dropped settings, and messages for
// the rest. It shows only the paths of kept settings, because the configuration contains them. Findings only in the
// other report are listed as gone.
func summary(r, other *Result) string {
	var text strings.Builder
	paths := map[Effect]string{}
	known := slices.Clone(other.Findings)
	for _, f := range r.Findings {
		f.Line = 0
		at := slices.IndexFunc(known, func(k Finding) bool { k.Line = 0; return k == f })
		switch {
		case at >= 0:
			known = slices.Delete(known, at, at+1)
		case f.Effect == Kept, f.Effect == Dropped:
			paths[f.Effect] += " " + f.Path
		default:
			fmt.Fprintf(&text, "%s %s: %s\n", f.Effect, f.Path, f.Message)
		}
	}
	for _, f := range known {
		paths["gone"] += " " + f.Path
	}
	for _, effect := range []Effect{Kept, Dropped, "gone"} {
		if paths[effect] != "" {
			text.WriteString(string(effect) + paths[effect] + "\n")
		}
	}
	return text.String()
}

// settings returns the lines of a configuration that the other lacks, as one line.
func settings(config, other []byte) string {
	lines, known := strings.Split(string(config), "\n"), strings.Split(string(other), "\n")
	lines = slices.DeleteFunc(lines, func(line string) bool { return slices.Contains(known, line) })
	words := strings.Fields(strings.Join(lines, " "))
	if len(words) == 0 {
		return ""
	}
	return "= " + strings.Join(words, " ") + "\n"
}

// Each part, inserted into a common definition, results in the differences in report and configuration that
// testdata/parts lists below "=>".
func TestParts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/parts/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			require.NoError(t, err)
			for i, f := range archive.Files {
				part, want, _ := bytes.Cut(f.Data, []byte("=>\n"))
				kind, _, _ := strings.Cut(f.Name, " ")
				got := convertedPart(t, kind, string(part))
				archive.Files[i].Data = []byte(string(part) + "=>\n" + got)
				if !*update {
					require.Equal(t, string(want), got, f.Name)
				}
			}
			if *update {
				require.NoError(t, os.WriteFile(file, txtar.Format(archive), 0o600))
			}
		})
	}
}

// convertedPart returns the differences that a part causes in the report and the configuration.
func convertedPart(t *testing.T, kind, part string) string {
	t.Helper()
	whole, known := wholes()[kind]
	require.True(t, known, kind)
	file, format := fileOf(kind)
	convert := func(part string) (*Result, error) {
		text := strings.Replace(whole, "PART", part, 1)
		return Convert(file, []byte(text), Options{Format: format, Bridges: map[string]string{"lab": "br-lab"}})
	}
	r, err := convert(part)
	if err != nil {
		return fmt.Sprintf("%v\n", err)
	}
	without := &Result{}
	if kind != "whole" {
		without, err = convert("")
		require.NoError(t, err)
	}
	return summary(r, without) + settings(r.Config, without.Config)
}

func TestSizes(t *testing.T) {
	t.Parallel()
	const mib, most = 1 << 20, 1 << 50
	size := func(read func(*conversion, *node) vmspec.Bytes, text string) vmspec.Bytes {
		return read(&conversion{result: &Result{}}, &node{text: text})
	}
	for text, want := range map[string]vmspec.Bytes{
		"1024T": most, "1025T": 0, "4Q": 0, "": 0, "0": 0, "1.5 gib": 1536 * mib, "1b": mib,
		"3": 3 * mib, "2M": 2 * mib,
		"2 MB": 2 * mib, "2049k": 3 * mib, "1..5G": 0, "G": 0, "-1G": 0,
	} {
		got := size(func(c *conversion, n *node) vmspec.Bytes { return c.binarySize(n, mebiBits, "") }, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]vmspec.Bytes{
		"1024TiB": most, "1025TiB": 0, "0": 0, "-1": 0, "50%": 0, "2GB": 1908 * mib, "1": mib, "1MiB": mib,
	} {
		got := size(func(c *conversion, n *node) vmspec.Bytes { return (&incus{conversion: c}).readSize(n, "") }, text)
		require.Equal(t, want, got, text)
	}
	for set, want := range map[string]int{
		"0-2,5": 4, "4,4096": 2, "0": 1, "0-4096": 4097, "0-4097": 0, "3-1": 0, "a-b": 0,
		"-1,1": 0, "1-x": 0, "1-": 0, "": 0,
	} {
		require.Equal(t, want, countOf(set), set)
	}
}
