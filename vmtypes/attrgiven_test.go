package vmtypes_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"vmop/authoring/sample"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

const companyType = `
def tier_of(options):
    """Gold in production, otherwise bronze. For billing."""
    return "gold" if options.env == "prod" else "bronze"

options = {
    "env": attr.string(default = "dev", values = ["dev", "prod"], aliases = ["stage"], label = "Environment"),
    "tier": attr.string(default = tier_of, values = ["gold", "bronze"], group = "Service"),
    "share": attr.record({
        "source": attr.string(default = "/srv", aliases = ["source_dir"]),
        "tag": attr.string(default = lambda options: options.source.replace("/", "")),
    }, default = {}),
    "idle": attr.duration(default = "5m", group = "Service"),
    "weight": attr.percent(default = 50),
    "limit": attr.rate(default = "10 MiB/s", deprecated = "use weight"),
    "ticket": attr.string(required_if = {"env": "prod"}, pattern = "[A-Z]+-[0-9]+", example = "OPS-17"),
    "key": attr.file(secret = True),
    "keys": attr.list(attr.file(secret = True)),
}

def launch(vm, host):
    o = vm.options
    seen = [o.env, o.tier, o.share.source, o.share.tag, o.idle, o.weight, o.limit, o.ticket, o.key, o.keys]
    return part(executable = "/bin/qemu", options = [option("-name", str(seen))])
`

// companyPlan returns the plan of companyType for options in YAML.
func companyPlan(t *testing.T, options string) (*plan.Plan, error) {
	t.Helper()
	vm, err := sample.ParseVM([]byte("options: " + options))
	require.NoError(t, err)
	spec := smallVM()
	spec.Options = vm.Options
	library, err := vmtypes.Open(folder(t, []txtar.File{{Name: "mine.star", Data: []byte(companyType)}}))
	require.NoError(t, err)
	defer library.Close()
	loaded, err := library.Load(t.Context(), "mine")
	require.NoError(t, err)
	host := emptyHost()
	host.Files.Folder = "/conf"
	return loaded.Launch(t.Context(), spec, host)
}

// A module sees current names, values without units, and defaults that depend on other options.
func TestOptionsAsTheModuleSeesThem(t *testing.T) {
	t.Parallel()
	const usual = `"/srv", "srv", 300, 50, 10485760, None, None, None]`
	for options, want := range map[string]string{
		"{}":                           `["dev", "bronze", ` + usual,
		"{env: prod, ticket: OPS-1}":   `["prod", "gold", "/srv", "srv", 300, 50, 10485760, "OPS-1", None, None]`,
		"{stage: prod, ticket: A-1}":   `["prod", "gold", "/srv", "srv", 300, 50, 10485760, "A-1", None, None]`,
		"{stage: null, env: dev}":      `["dev", "bronze", ` + usual,
		"{tier: gold}":                 `["dev", "gold", ` + usual,
		"{share: {source_dir: /a/b}}":  `["dev", "bronze", "/a/b", "ab", 300, 50, 10485760, None, None, None]`,
		"{idle: 90}":                   `["dev", "bronze", "/srv", "srv", 90, 50, 10485760, None, None, None]`,
		"{idle: 1d2h3m4s, weight: 7}":  `["dev", "bronze", "/srv", "srv", 93784, 7, 10485760, None, None, None]`,
		"{idle: 1.5h, weight: 7%}":     `["dev", "bronze", "/srv", "srv", 5400, 7, 10485760, None, None, None]`,
		"{idle: 1h 30m, weight: 7 %}":  `["dev", "bronze", "/srv", "srv", 5400, 7, 10485760, None, None, None]`,
		"{limit: 80 Mbit/s, idle: 0}":  `["dev", "bronze", "/srv", "srv", 0, 50, 10000000, None, None, None]`,
		"{limit: 8 Kibit/s, idle: 0s}": `["dev", "bronze", "/srv", "srv", 0, 50, 1024, None, None, None]`,
		"{limit: 1000}":                `["dev", "bronze", "/srv", "srv", 300, 50, 1000, None, None, None]`,
		"{limit: 1.5 MB/s, key: k, keys: []}": `["dev", "bronze", "/srv", "srv", 300, 50, 1500000, None, ` +
			`"/conf/k", ()]`,
	} {
		t.Run(options, func(t *testing.T) {
			t.Parallel()
			p, err := companyPlan(t, options)
			require.NoError(t, err)
			require.Equal(t, want, p.QEMU.Args[0].Value)
		})
	}
}

// A plan carries warnings about options, and the files with secrets, with the names that the configuration uses.
func TestPlanHasWarningsAndSecretFiles(t *testing.T) {
	t.Parallel()
	p, err := companyPlan(t, "{stage: dev, limit: 1 MB/s, share: {source_dir: /a}, key: k, keys: [/l, m]}")
	require.NoError(t, err)
	require.Equal(t, []plan.Warning{
		{Path: "vm.options.stage", Message: "is a former name: use env"},
		{Path: "vm.options.share.source_dir", Message: "is a former name: use source"},
		{Path: "vm.options.limit", Message: "is deprecated: use weight"},
	}, p.Warnings)
	require.Equal(t, []plan.SecretFile{
		{Path: "vm.options.key", File: "/conf/k"},
		{Path: "vm.options.keys[0]", File: "/l"},
		{Path: "vm.options.keys[1]", File: "/conf/m"},
	}, p.SecretFiles)
	require.NotContains(t, p.Text(), "deprecated")
}

// The description of a type contains all declarations, also after the transfer from another process.
func TestDescriptionOfDeclarations(t *testing.T) {
	t.Parallel()
	source := vmtypes.Source{Modules: map[string]string{"mine.star": companyType}}
	loaded, err := source.Library().Load(t.Context(), "mine")
	require.NoError(t, err)
	text, err := json.Marshal(loaded.Describe())
	require.NoError(t, err)
	var d vmtypes.Description
	require.NoError(t, json.Unmarshal(text, &d))
	var got []string
	for _, o := range vmtypes.ByGroup(d.Options) {
		got = append(got, strings.Join([]string{
			o.Group, o.Name, o.Label, o.DefaultText(), o.DefaultRule, o.Limits(), strings.Join(o.Notes(), ", "),
			o.Example(),
		}, "|"))
	}
	require.Equal(t, []string{
		"|env|Environment|dev||one of dev, prod|formerly stage|dev",
		"|share||{}||||{source: \"/srv\", tag: text}",
		"|weight||50%||0% to 100%||50%",
		"|limit||10 MiB/s|||deprecated: use weight|10 MiB/s",
		"|ticket||||like OPS-17|required if env is prod|OPS-17",
		"|key|||||contains a secret|/srv/file",
		"|keys||||||[/srv/file]",
		"Service|tier|||Gold in production, otherwise bronze|one of gold, bronze||gold",
		"Service|idle||5m||||5m",
	}, got)
	require.NoError(t, d.Options[6].CheckText("OPS-1"))
	require.EqualError(t, d.Options[6].CheckText("ops"), `must be like "OPS-17", not "ops"`)
	require.EqualError(t, d.Options[4].CheckText("101"), "can't be 101% (0% to 100%)")
}

// The example of a string is allowed by its pattern and its length.
func TestExamplesOfStrings(t *testing.T) {
	t.Parallel()
	for declaration, want := range map[string]string{
		``:                          "text",
		`pattern = "[A-Z]+-[0-9]+"`: "A-0",
		`pattern = "([0-9a-f]{2}:){5}[0-9a-f]{2}"`: `"aa:aa:aa:aa:aa:aa"`,
		`pattern = "ab|cd"`:                        "ab",
		`pattern = "a?b*[^a-z]"`:                   "A",
		`pattern = "(ab)*", min_length = 4`:        "abab",
		`pattern = "(x|y)*", min_length = 2`:       "xx",
		`min_length = 6`:                           "xxxxxx",
		`max_length = 2`:                           "te",
		`pattern = "[a-z]{3}", example = "foo"`:    "foo",
		`pattern = "[[:cntrl:]]"`:                  "text",
	} {
		module := "options = {\"a\": attr.string(" + declaration + ")}\n\ndef launch(vm, host):\n    return part()\n"
		source := vmtypes.Source{Modules: map[string]string{"mine.star": module}}
		loaded, err := source.Library().Load(t.Context(), "mine")
		require.NoError(t, err, declaration)
		a := loaded.Describe().Options[0]
		require.Equal(t, want, a.Example(), declaration)
		if want != "text" {
			require.NoError(t, a.CheckText(strings.Trim(want, `"`)), declaration)
		}
	}
}
