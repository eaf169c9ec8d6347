// Package scaffold generates the files of a new VM type: a module that builds on another type, its tests, and a sample
// VM with its plan. They pass "vmrunner vmtype test", fmt and lint unchanged. "vmrunner vmtype new" calls [Files] and
// writes the files.
package scaffold

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"

	"vmop/authoring/sample"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// A File is a generated file.
type File struct {
	// Name is the name of the file, without a folder.
	Name, Text string
}

// An Evaluator evaluates types of a source, and stock types.
type Evaluator interface {
	Describe(ctx context.Context, source vmtypes.Source, vmType string) (vmtypes.Description, error)
	Launch(
		ctx context.Context, source vmtypes.Source, vmType string, vm vmspec.Spec, host vmtypes.Host,
	) (*plan.Plan, error)
}

// Files returns the files of a new type that builds on the type from. The type from is a stock type or is in the
// source, which is the folder for the new type.
func Files(ctx context.Context, e Evaluator, source vmtypes.Source, name, from string) ([]File, error) {
	if why := BadName(name); why != "" {
		return nil, fmt.Errorf("%q cannot be the name of a VM type: %s", name, why)
	}
	base, err := e.Describe(ctx, source, from)
	if err != nil {
		return nil, err
	}
	if name == base.Name {
		return nil, fmt.Errorf("a VM type cannot build on itself: choose a name other than %s", name)
	}
	t := template{name: name, from: base.Name, options: base.Options}
	module := File{name + ".star", t.moduleText()}
	archive, err := t.sampleWithPlan(ctx, e, source, module)
	if err != nil {
		return nil, fmt.Errorf("the type %s has no plan for a default VM to start from: %w",
			from, err)
	}
	return []File{module, {name + "_test.star", t.testsText()}, {name + sample.Suffix, archive}}, nil
}

// sampleWithPlan returns a sample. It tries several kinds of VMs, and stores the first kind with a plan in t.
func (t *template) sampleWithPlan(ctx context.Context, e Evaluator, source vmtypes.Source, module File) (string,
	error,
) {
	var first error
	for _, kind := range []struct {
		firmware, host string
	}{{}, {firmware: "bios"}, {host: `{"arch": "aarch64", "files": ["debian-12-arm64"]}`}} {
		t.firmware, t.host = kind.firmware, kind.host
		a := &txtar.Archive{
			Comment: []byte("A usual VM, with an asset tag.\n"),
			Files: []txtar.File{
				{Name: "type", Data: []byte(t.name + "\n")},
				{Name: "vm.yaml", Data: []byte(t.vmSection())},
			},
		}
		facts := sample.HostFacts{}
		if t.host != "" {
			var err error
			if facts, err = sample.ParseHost([]byte(t.host)); err != nil {
				return "", err
			}
			a.Files = append(a.Files, txtar.File{Name: "host.json", Data: []byte(t.host + "\n")})
		}
		text, err := t.planText(ctx, e, source, module, facts)
		if err == nil {
			a.Files = append(a.Files, txtar.File{Name: "plan.txt", Data: []byte(text)})
			return string(txtar.Format(a)), nil
		}
		if first == nil {
			first = err
		}
	}
	return "", first
}

// planText returns the plan of the sample as text.
func (t *template) planText(
	ctx context.Context, e Evaluator, source vmtypes.Source, module File, host sample.HostFacts,
) (string, error) {
	modules := map[string]string{module.Name: module.Text}
	for name, text := range source.Modules {
		if name != module.Name {
			modules[name] = text
		}
	}
	source.Modules = modules
	spec, err := sample.ParseVM([]byte(t.vmSection()))
	if err != nil {
		return "", err
	}
	p, err := e.Launch(ctx, source, t.name, spec, host.Host())
	if err != nil {
		return "", err
	}
	return p.Text(), nil
}

// BadName returns the reason why a name is invalid for a type, or "".
func BadName(name string) string {
	switch {
	case name == "":
		return "it is empty"
	case len(name) > 64:
		return "it is longer than 64 letters"
	case strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" ||
		strings.HasPrefix(name, "-"):
		return "use letters, digits, - and _"
	case vmtypes.IsStock(name):
		return "a stock type has this name and would be used instead"
	case strings.HasSuffix(name, "_test") || name == "testing":
		return "files with this name are tests"
	}
	return ""
}

// template generates the files.
type template struct {
	name, from string
	options    []vmtypes.Option // options of the base type
	firmware   string           // firmware of the sample; "" means the default
	host       string           // host of the sample as JSON; "" means the default host
}

// moduleText returns the module of the type.
func (t template) moduleText() string {
	loaded, options := fmt.Sprintf("%s = \"launch\"", t.launchAlias()), "options = {"
	if len(t.options) > 0 {
		loaded = fmt.Sprintf("%s = \"launch\", %s_options = \"options\"", t.launchAlias(), t.launchAlias())
		options = fmt.Sprintf("options = %s_options | {", t.launchAlias())
	}
	return replacePairs(`"""NAME: the type FROM, with an asset tag.

Say here what the type is for, and what who uses it has to know. "vmrunner vmtype show
NAME" prints it.
"""

load("MODULE", LOADED)

api_version = VERSION

OPTIONS
    "asset": attr.string(doc = "The tag on the machine's case; without it there is none."),
}

def launch(vm, host):
    """Returns the machine of the type FROM, with an asset tag if one is wanted."""
    return combine(
        ALIAS(vm, host),
        asset(vm.options.asset) if vm.options.asset else None,
    )

def asset(tag):
    """The tag on the case; Linux shows it in /sys/class/dmi/id/chassis_asset_tag."""
    return part(options = [option("-smbios", None, {"type": 3, "asset": tag})])
`, "NAME", t.name, "FROM", t.from, "MODULE", t.loadPath(), "LOADED", loaded,
		"VERSION", fmt.Sprint(vmtypes.APIVersion), "OPTIONS", options, "ALIAS", t.launchAlias())
}

// testsText returns the tests of the type.
func (t template) testsText() string {
	loads := []string{
		fmt.Sprintf("load(%q, %s = \"launch\")", t.loadPath(), t.launchAlias()),
		`load("@vmtypes//testing.star", "assert", "plan_of")`,
		fmt.Sprintf("load(%q, \"launch\")", t.name+".star"),
	}
	slices.Sort(loads) // in the usual order, which begins with the library
	given, asked := t.mandatoryItems(), append(t.mandatoryItems(), `"asset": "R2-D2"`)
	host := ""
	if t.firmware != "" {
		host = fmt.Sprintf(", firmware = %q", t.firmware)
	}
	if t.host != "" {
		host += ", host = HOST"
		loads = append(loads, "\nHOST = "+t.host)
	}
	plain := host
	if given != nil {
		plain += ", options = {" + strings.Join(given, ", ") + "}"
	}
	return replacePairs(`"""Tests of the VM type NAME; a test is a function whose name begins with test_."""

LOADS

def test_the_tag_is_on_the_case():
    plan = plan_of(launchON, options = {ASKED})
    assert.contains(plan.argv, "type=3,asset=R2-D2")

def test_nothing_else_differs():
    assert.eq(plan_of(launchPLAIN).argv, plan_of(ALIASPLAIN).argv)
`, "NAME", t.name, "LOADS", strings.Join(loads, "\n"), "ON", host,
		"ASKED", strings.Join(asked, ", "), "ALIAS", t.launchAlias(), "PLAIN", plain)
}

// vmSection returns the vm section of the sample.
func (t template) vmSection() string {
	var b strings.Builder
	if t.firmware != "" {
		b.WriteString("firmware: " + t.firmware + "\n")
	}
	b.WriteString("maximumCpus: 2\nmaximumRam: 2 GiB\ndrives:\n  - file: /images/disk.img\noptions:\n  asset: R2-D2\n")
	for i := range t.options {
		if o := &t.options[i]; o.Mandatory && o.Name != "asset" {
			b.WriteString("  " + o.Name + ": " + o.Example() + "\n")
		}
	}
	return b.String()
}

// mandatoryItems returns the mandatory options of the base type as dict items.
func (t template) mandatoryItems() []string {
	var items []string
	for i := range t.options {
		o := &t.options[i]
		if !o.Mandatory || o.Name == "asset" {
			continue
		}
		example := o.Example()
		switch {
		case slices.Contains([]string{"string", "file", "size", "duration", "percent", "rate"}, o.Type):
			example = fmt.Sprintf("%q", strings.Trim(example, `"`))
		case o.Type == "bool":
			example = "True"
		}
		items = append(items, fmt.Sprintf("%q: %s", o.Name, example))
	}
	return items
}

// loadPath returns the name of the base type's module in load statements.
func (t template) loadPath() string {
	if vmtypes.IsStock(t.from) {
		return vmtypes.StockPrefix + t.from + ".star"
	}
	return t.from + ".star"
}

// launchAlias returns the local name of the base type's launch function.
func (t template) launchAlias() string {
	if vmtypes.IsStock(t.from) {
		return t.from
	}
	return "base" // the name of a custom type may conflict with a name in the module
}

// replacePairs replaces words of a text, given in pairs.
func replacePairs(text string, pairs ...string) string {
	return strings.NewReplacer(pairs...).Replace(text)
}
