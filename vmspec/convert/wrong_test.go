package convert

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/config"
)

// A file that is not a definition is refused with a reason.
func TestWrongFiles(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, want string }{
		{"", "/d/f: the file is empty"},
		{" \n", "/d/f: the file is empty"},
		{"QFI\xfb\x00\x00", "/d/f: this is not text in UTF-8: give a definition, not a disk"},
		{"hello world\n", "/d/f: cannot detect the format of the definition; give --from libvirt, " +
			"quickemu, lima or incus"},
		{strings.Repeat("<", LargestInput+1), "/d/f: the definition has more than 1 MiB"},
		{"<domain type='kvm'>\n  <name>x</na", "/d/f:2: not well-formed XML, or not whole: "},
		{"<domain>\n<name>x</name>\n", "/d/f:3: not well-formed XML, or not whole: unexpected EOF"},
		{"<a/>\n<b/>", "/d/f:2: a second document begins here; convert them one by one"},
		{"<a/>text", "/d/f:1: text outside of the XML document"},
		{"<!-- nothing -->", "/d/f: there is no XML element"},
		{"<!DOCTYPE d [<!ENTITY e 'x'>]><domain>&e;</domain>", "/d/f:1: a document type is not accepted"},
		{"<domain>&e;</domain>", "/d/f:1: not well-formed XML, or not whole: invalid character entity &e;"},
		{strings.Repeat("<a>", 65), "/d/f:1: too many elements"},
		{"<a>" + strings.Repeat("<b/>", 50_001), "/d/f:1: too many elements"},
		{"<?xml version='1.0' encoding='latin1'?><domain/>", "/d/f:1: xml: encoding \"latin1\" declared"},
	} {
		r, err := Convert("/d/f", []byte(test.text), Options{})
		require.ErrorContains(t, err, test.want)
		require.Nil(t, r)
	}
	for _, test := range []struct{ text, want string }{
		{"guest_os=\"linux\"\nrm -rf /\n", "/d/f:2: must be NAME=\"TEXT\": no other lines are read, and no commands are executed"},
		{"guest_os=$(id)", "/d/f:1: must be text in quotes"},
		{"guest_os=\"`id`\"", "/d/f:1: $, ` and \\ would have to be executed"},
		{"guest_os=\"$HOME\"", "/d/f:1: $, ` and \\ would have to be executed"},
		{"\nguest_os=linux; id", "/d/f:2: after the assignment there is something that would have to be executed"},
		{"guest_os=\"linux\nx=1", "/d/f:1: the quote isn't closed on its line"},
		{"guest_os=(\"a\"", "/d/f:1: the file ends in an assignment"},
		{"guest_os=" + strings.Repeat("\na=1", 1001), "too many assignments"},
	} {
		_, err := Convert("/d/f", []byte(test.text), Options{})
		require.ErrorContains(t, err, test.want)
	}
	for _, test := range []struct{ text, want string }{
		{"images: [", "/d/f: cannot detect the format of the definition"},
		{"images: 1\nimages: 2", "/d/f: cannot detect the format of the definition"},
	} {
		_, err := Convert("/d/f", []byte(test.text), Options{})
		require.ErrorContains(t, err, test.want)
		_, err = Convert("/d/f", []byte(test.text), Options{Format: Lima})
		require.ErrorContains(t, err, "/d/f:")
		require.NotContains(t, err.Error(), "|", "a line of the file")
	}
	_, err := Convert("/d/f", []byte("<a/>"), Options{Format: "xen"})
	require.ErrorContains(t, err, `"xen" is not a supported format`)
	_, err = Convert("/d/f", []byte("<domain><name>x</name></domain>"), Options{Without: []string{"nme"}})
	require.ErrorContains(t, err, `there is no part "nme" to leave out`)
}

// minimal returns a domain with the devices.
func minimal(devices string) string {
	return "<domain type='kvm'><name>x</name><memory unit='MiB'>64</memory><os><type>hvm</type></os>\n" +
		"<devices>\n" + devices + "\n</devices></domain>"
}

// A setting that can't be converted is a blocking finding with its position.
func TestBlocked(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, path, want string }{
		{"<network><name>default</name></network>", "", "this is a <network> of libvirt, not a <domain>"},
		{"<domain type='kvm'/>", "", "the domain has no <memory>"},
		{strings.Replace(minimal(""), "'kvm'", "'xen'", 1), "@type", "a domain of type xen is not QEMU's"},
		{strings.Replace(minimal(""), "64", "lots", 1), "memory", `"lots" "MiB" is not a memory size`},
		{strings.Replace(minimal(""), "64", "99999999999999999", 1), "memory", `is not a memory size`},
		{
			strings.Replace(minimal(""), "<type>", "<type arch='s390x'>", 1), "os/type/@arch",
			"no stock type is for s390x",
		},
		{
			strings.Replace(minimal(""), "x</name>", "a/b</name>", 1), "",
			"the configuration would have an error: vm.name",
		},
		{
			strings.Replace(minimal(""), "<type>", "<loader secure='yes'/><type machine='pc'>", 1), "os",
			"the VM type pc has a BIOS only",
		},
		{"guest_os=linux\n", "", "there is no disk_img"},
		{minimal("<disk/>\n<what/>"), "devices/what", "is not known here"},
	} {
		r, err := Convert("/d/f", []byte(test.text), Options{})
		require.NoError(t, err, test.text)
		require.Nil(t, r.Config, test.text)
		found := false
		for _, f := range r.Findings {
			found = found || f.Effect == Blocks && f.Path == test.path && strings.Contains(f.Message, test.want)
		}
		require.True(t, found, "%s\n%s", test.text, report(r))
	}
}

// Every unknown element and attribute of a domain is reported.
func TestNothingIsPassedOver(t *testing.T) {
	t.Parallel()
	domains, _ := documented(t)
	text := domains[0]
	before, err := Convert("/d/f", []byte(text), Options{})
	require.NoError(t, err)
	for at := range text {
		if text[at] != '>' || text[at-1] == '?' || text[at-1] == '-' {
			continue
		}
		end := at
		if text[at-1] == '/' {
			end--
		} else if start := strings.LastIndex(text[:at], "<"); text[start+1] == '/' {
			continue
		}
		changed := text[:end] + " unheard='of'" + text[end:]
		r, err := Convert("/d/f", []byte(changed), Options{})
		require.NoError(t, err)
		if r.Count(Dropped) == before.Count(Dropped) { // inside a part dropped or left to the type
			part := text[strings.LastIndex(text[:at], "<") : at+1]
			require.Regexp(t, `^<(timer|target|emulator|acpi|apic|model|controller|backend)`, part)
		}
	}
}

func FuzzConvert(f *testing.F) {
	for name := range samples() {
		text, err := os.ReadFile(filepath.Join("testdata", strings.TrimSuffix(name, "+")))
		require.NoError(f, err)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Convert("/d/f", text, Options{})
		if err != nil {
			return
		}
		require.Equal(t, r.Config == nil, r.Count(Blocks) > 0)
		if r.Config != nil {
			_, _, err := config.Parse("made.yaml", r.Config)
			require.NoError(t, err)
		}
	})
}
