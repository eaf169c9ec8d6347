package reference_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
	"gopkg.in/yaml.v3"

	"vmop/authoring/reference"
	"vmop/runner/config"
	"vmop/vmtypes"
)

// compiled checks the schema against the schema of schemas, and compiles it.
func compiled(t *testing.T, schema reference.Schema) *jsonschema.Schema {
	t.Helper()
	text, err := json.Marshal(schema)
	require.NoError(t, err)
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("schema.json", document))
	s, err := c.Compile("schema.json")
	require.NoError(t, err)
	return s
}

// judge returns the schema's error for a configuration file.
func judge(t *testing.T, s *jsonschema.Schema, text string) error {
	t.Helper()
	var document any
	require.NoError(t, yaml.Unmarshal([]byte(text), &document), text)
	plain, err := json.Marshal(document)
	require.NoError(t, err)
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(plain))
	require.NoError(t, err)
	return s.Validate(value)
}

// vmSection returns a configuration with a vm section.
func vmSection(vm string) string {
	if !strings.Contains("\n"+vm, "\nname:") {
		vm = "name: vm\n" + vm
	}
	return "\"/Runner\":\n  vm:\n    " + strings.ReplaceAll(strings.TrimSpace(vm), "\n", "\n    ") + "\n"
}

func TestSchemaTakesTheSamples(t *testing.T) {
	t.Parallel()
	s := compiled(t, reference.ConfigurationSchema(nil))
	samples, err := filepath.Glob("../../vmtypes/testdata/golden/*.txtar")
	require.NoError(t, err)
	require.Greater(t, len(samples), 10)
	for _, file := range samples {
		archive, err := txtar.ParseFile(file)
		require.NoError(t, err)
		for _, f := range archive.Files {
			if f.Name == "vm.yaml" {
				require.NoError(t, judge(t, s, vmSection(string(f.Data))), file)
			}
		}
	}
	example, err := os.ReadFile("../../examples/standalone/config.yaml")
	require.NoError(t, err)
	require.NoError(t, judge(t, s, string(example)))
}

// The schema accepts a file if and only if the runner accepts it.
func TestSchemaAgreesWithTheRunner(t *testing.T) {
	t.Parallel()
	s := compiled(t, reference.ConfigurationSchema(nil))
	files := map[string]bool{
		"\"_Runner\": {vm: {name: x}}\n":                                 true,
		"\"/Runner\": {vm: {name: x}}\n\"/Manager\": {any: thing}\n":     true,
		"\"/Runner\": {vm: {name: x}}\nManager: {}\n":                    false,
		"\"/Runner\": {dataDir: /x}\n":                                   false,
		"\"/Runner\": {vmTyp: x, vm: {name: x}}\n":                       false,
		"\"/Runner\": {cloudInit: {userData: {a: 1}}, vm: {name: x}}\n":  true,
		"\"/Runner\": {cloudInit: {userDate: {a: 1}}, vm: {name: x}}\n":  false,
		"\"/Runner\": {cloudInit: null, resetCounter: 3, vm: {name: x}}": true,
	}
	for _, good := range []string{
		"maximumRam: 8 GiB", "maximumRam: 8Gi", "maximumRam: 1073741824", "maximumRam: \"1073741824\"",
		"maximumRam: 1.5 GiB", "maximumRam: 1048576000",
		"useTpm: yes", "useTpm: on", "useTpm:", "bootMenu: false", "firmware: uefi-4m", "firmware:", "network: []",
		"network:", "network: [{type: tap}]",
		"maximumCpus: 4096", "maximumCpus: \"4\"", "rtcBase: 2026-03-01T12:00:00", "rtcBase: \"2026-03-01\"",
		"rtcBase: localtime", "powerdownTimeout: 0", "cpuModel: 486",
		"drives: [{file: /a}]", "drives: [{type: ide-cd}]", "drives: [{device: /dev/x, file: null}]",
		"drives: [{file: /a, iothread: true}, {file: /b, iothread: no}, {file: /c, iothread: shared}]",
		"drives: [{type: ide-cd, bus: scsi, file: /x.iso}]",
		"display: {}", "display: {vnc: {port: 0}}", "display: {vnc: {port: 5900}}", "display: {spice: {port: 1}}",
		"uuid: 2d5e8b6c-5a0f-4c4e-9d3a-6f1b0c7a9e21", "machineType: pc-q35-7.2", "serialConsole: {enabled: off}",
		"kernel: {image: /vmlinuz}",
	} {
		files[vmSection(good)] = true
	}
	for _, bad := range []string{
		"maximumRm: 8 GiB", "maximumRam: 8 iB", "maximumRam: 0", "maximumRam: 1000000",
		"maximumRam: true", "useTpm: perhaps", "useTpm: 1", "firmware: uefi4m",
		"network: {}", "network: [{type: bridge}]", "maximumCpus: 0", "maximumCpus: 4097", "maximumCpus: 1.5",
		"maximumCpus: \"0x10\"", "rtcBase: now", "rtcClock: slow",
		"powerdownTimeout: -1", "powerdownTimeout: 31536001", "sockets: 4097", "name: a/b", "name: ..", "name:",
		"uuid: x", "machineType: q35,usb=on",
		"drives: [{}]", "drives: [{file: /a, device: /b}]", "drives: [{type: ide-cd, device: /dev/sr0}]",
		"drives: [{file: /a, bus: ide}]", "drives: [{file: /a, format: vmdk}]",
		"drives: [{file: /a, bootindex: -1}]", "drives: [{file: /a, readOnly: maybe}]", "display: {outputs: 17}",
		"display: {outputs: 0}", "display: {vnc: {port: 5899}}",
		"display: {spice: {port: 65536}}", "display: {spice: {usbRedirects: 15}}",
		"display: {spice: {streamingVideo: some}}", "display: {spcie: {}}",
		"kernel: {initrd: /x}", "network: [{type: user, ports: [{guest: 80}]}]",
		"network: [{type: user, ports: [{host: 0}]}]", "network: [null]", "options: []",
	} {
		files[vmSection(bad)] = false
	}
	for text, want := range files {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			_, _, err := config.Parse("vm.yaml", []byte(text))
			require.Equal(t, want, err == nil, "the runner: %v", err)
			err = judge(t, s, text)
			require.Equal(t, want, err == nil, "the schema: %v", err)
		})
	}
}

const withOptions = `"""tagged: a machine with options."""

options = {
    "asset": attr.string(default = "none", doc = "The tag on the case."),
    "mode": attr.string(values = ["fast", "safe"]),
    "queues": attr.int(default = 1, minimum = 1, maximum = 8),
    "lanes": attr.int(values = [1, 2]),
    "base": attr.size(default = "1 GiB", minimum = "128 MiB"),
    "quiet": attr.bool(default = False),
    "ports": attr.list(attr.int(minimum = 1), default = []),
    "labels": attr.dict(attr.string()),
    "share": attr.record({"source": attr.string(mandatory = True), "tag": attr.string(default = "share")}),
    "key": attr.string(mandatory = True, doc = "What it is [for](x.md)."),
    "ticket": attr.string(pattern = "[A-Z]+|no", min_length = 2, max_length = 3, example = "OPS"),
    "tags": attr.list(attr.string(), min_items = 1, max_items = 2, unique = True),
    "idle": attr.duration(maximum = "1h"),
    "part": attr.percent(),
    "limit": attr.rate(minimum = 1000),
    "color": attr.string(values = ["red", "green"], aliases = ["colour"], deprecated = "use paint"),
    "env": attr.string(default = "dev", values = ["dev", "prod"]),
    "owner": attr.string(required_if = {"env": "prod"}, label = "Owner"),
    "phone": attr.string(required_if = {"env": "dev", "lanes": [1, 2]}, aliases = ["fax"]),
}

def launch(vm, host):
    return part(executable = "/usr/bin/qemu-system-x86_64")
`

// typeOf loads a type of one file.
func typeOf(t *testing.T, name, source string) (*vmtypes.Type, reference.DescribedType) {
	t.Helper()
	modules := vmtypes.Source{Modules: map[string]string{name + ".star": source}}
	loaded, err := modules.Library().Load(t.Context(), name)
	require.NoError(t, err)
	return loaded, reference.Described(loaded.Describe())
}

// The schema accepts options if and only if the type accepts them.
func TestSchemaAgreesWithTheType(t *testing.T) {
	t.Parallel()
	loaded, described := typeOf(t, "tagged", withOptions)
	one := compiled(t, reference.ConfigurationSchema([]reference.DescribedType{described}))
	several := compiled(t, reference.ConfigurationSchema([]reference.DescribedType{described, {Name: "standard"}}))
	for options, want := range map[string]bool{
		"{key: k}": true, "{}": false, "{key: 1}": false, "{key: k, asset: x, mode: safe, queues: 8}": true,
		"{key: k, mode: slow}": false, "{key: k, queues: 9}": false, "{key: k, queues: 0}": false,
		"{key: k, queues: \"8\"}": true, "{key: k, queues: 1.5}": false,
		"{key: k, lanes: 2, phone: a}": true, "{key: k, lanes: 3}": false, "{key: k, lanes: \"2\", phone: a}": true,
		"{key: k, base: 2 GiB}": true, "{key: k, base: 2147483648}": true, "{key: k, base: 1024}": false,
		"{key: k, base: big}":  false,
		"{key: k, quiet: yes}": true, "{key: k, quiet: 1}": false, "{key: k, ports: [1, 2]}": true,
		"{key: k, ports: [0]}": false, "{key: k, ports: 1}": false,
		"{key: k, labels: {a: b}}": true, "{key: k, labels: {a: 1}}": false, "{key: k, labels: null}": true,
		"{key: k, share: {source: /x}}": true, "{key: k, share: {tag: x}}": false,
		"{key: k, share: {source: /x, tga: y}}": false,
		"{key: k, nonsense: 1}":                 false, "null": false,
		"{key: k, ticket: OPS}": true, "{key: k, ticket: no}": true, "{key: k, ticket: O}": false,
		"{key: k, ticket: OPSS}": false, "{key: k, ticket: ops}": false, "{key: k, ticket: noX}": false,
		"{key: k, tags: [a, b]}": true, "{key: k, tags: []}": false, "{key: k, tags: [a, a]}": false,
		"{key: k, tags: [a, b, c]}": false, "{key: k, idle: 1h}": true, "{key: k, idle: 90}": true,
		"{key: k, idle: 3601}": false, "{key: k, idle: 5 min}": false, "{key: k, idle: 1m 30 s}": true,
		"{key: k, idle: 1.5m}": true, "{key: k, idle: soon}": false,
		"{key: k, part: 50%}": true, "{key: k, part: 101}": false, "{key: k, part: half}": false,
		"{key: k, part: 050%}": false, "{key: k, limit: 10 MiB/s}": true, "{key: k, limit: 100 Mbit/s}": true,
		"{key: k, limit: 10 MiB}": false, "{key: k, limit: 1}": false, "{key: k, limit: 1.5kB/s}": true,
		"{key: k, colour: red}": true, "{key: k, colour: blue}": false, "{key: k, colour: red, color: red}": false,
		"{key: k, env: prod}": false, "{key: k, env: prod, owner: hugo}": true,
		"{key: k, env: prod, owner: null}": false,
		"{key: k, env: null, lanes: 1}":    false, "{key: k, lanes: 2}": false, "{key: k, lanes: 2, fax: a}": true,
		"{key: k, lanes: 2, phone: a, env: dev}": true, "{key: k, lanes: 2, env: prod, owner: a}": true,
	} {
		t.Run(options, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(vmSection("options: "+options), "  vm:", "  vmType: tagged\n  vm:", 1)
			cfg, _, err := config.Parse("vm.yaml", []byte(text))
			require.NoError(t, err)
			err = loaded.CheckOptions(t.Context(), cfg.VM, vmtypes.Files{})
			require.Equal(t, want, err == nil, "the type: %v", err)
			for _, s := range []*jsonschema.Schema{one, several} {
				err = judge(t, s, text)
				require.Equal(t, want, err == nil, "the schema: %v", err)
			}
		})
	}
	require.Error(t, judge(t, one, vmSection("")), "another type than the schema's")
	require.NoError(t, judge(t, several, vmSection("")))
	require.Error(t, judge(t, several, vmSection("options: {asset: x}")), "standard has no such option")
	null := strings.Replace(vmSection("options: {}"), "  vm:", "  vmType:\n  vm:", 1)
	require.NoError(t, judge(t, several, null), "null is the default")
	require.Error(t, judge(t, several, strings.Replace(null, "{}", "{asset: x}", 1)))
	require.Error(t, judge(t, one, null))
}

func TestPageHasTheOptions(t *testing.T) {
	t.Parallel()
	_, described := typeOf(t, "tagged", withOptions)
	types := []reference.DescribedType{described}
	page := reference.TypesPage(types)
	for _, row := range []string{
		"| `asset` | string | `none` | The tag on the case. |", "| `mode` | string: `fast`, `safe` | none |  |",
		"| `queues` | int, 1 to 8 | `1` |  |",
		"| `base` | size, at least 128 MiB | `1 GiB` |  |", "| `ports` | list of int, at least 1 | `[]` |  |",
		"| `share.source` | string | mandatory |  |",
		"| `ticket` | string, like OPS, 2 to 3 characters | none |  |",
		"| `idle` | duration, at most 1h | none |  |",
		"| `color` | string: `red`, `green` | none | Deprecated: use paint. Formerly colour. |",
		"| `owner` | string | none | Required if env is prod. |",
	} {
		require.Contains(t, page, row)
	}
	file := filepath.Join(t.TempDir(), "tagged.7")
	require.NoError(t, os.WriteFile(file, []byte(reference.ManPage(types)), 0o644))
	text, complaints := formatted(t, file)
	require.Empty(t, complaints)
	require.Contains(t, text, "queues int, 1 to 8")
	require.Contains(t, text, "What it is for.")
}

// Each key has a description for editors.
func TestSchemaExplainsEveryKey(t *testing.T) {
	t.Parallel()
	var walk func(at string, s any)
	count := 0
	walk = func(at string, s any) {
		switch s := s.(type) {
		case map[string]any:
			for name, child := range properties(s) {
				require.NotEmpty(t, child.(map[string]any)["description"], "%s.%s", at, name)
				count++
				walk(at+"."+name, child)
			}
			walk(at+"[]", s["items"])
		}
	}
	text, err := json.Marshal(reference.ConfigurationSchema(nil))
	require.NoError(t, err)
	var schema map[string]any
	require.NoError(t, json.Unmarshal(text, &schema))
	walk("", schema["$defs"].(map[string]any)["runner"])
	require.Greater(t, count, 60)
	require.NotContains(t, string(text), "](", "a link that cannot be followed")
	require.Contains(t, string(text), fmt.Sprintf("%q", "draft/2020-12/schema")[1:len("draft/2020-12/schema")])
}

func properties(schema map[string]any) map[string]any {
	found, _ := schema["properties"].(map[string]any)
	return found
}
