package cloudinit

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

// section parses the text of a cloudInit section the way the runner's configuration does.
func section(t testing.TB, text string) *Config {
	t.Helper()
	var c Config
	decoder := yaml.NewDecoder(strings.NewReader(text))
	decoder.KnownFields(true)
	if strings.TrimSpace(text) != "" {
		require.NoError(t, decoder.Decode(&c))
	}
	return &c
}

func seedOf(t testing.TB, vmName, text string) Seed {
	t.Helper()
	seed, err := section(t, text).Seed(vmName)
	require.NoError(t, err)
	return seed
}

func TestAnEmptySectionStillMakesASeed(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "{}", "metaData:\nuserData:\nnetworkConfig:\nvendorData:\n",
		"metaData: {}\nuserData: {}\nnetworkConfig: {}\nvendorData: {}",
	} {
		seed := seedOf(t, "vm1", text)
		require.Equal(t, "#cloud-config\n{}\n", string(seed.UserData), text)
		require.Regexp(t, `^local-hostname: "vm1"\ninstance-id: "iid-[0-9a-f]{32}"\n$`, string(seed.MetaData), text)
		require.Nil(t, seed.NetworkConfig, text)
		require.Nil(t, seed.VendorData, text)
	}
}

func TestMetaDataAreCompleted(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, given, want string }{
		{"both given", "{instance-id: i-1, local-hostname: web}", "instance-id: i-1\nlocal-hostname: web\n"},
		{
			"numbers stay what they are", "instance-id: 007\n  local-hostname: web",
			"instance-id: 007\nlocal-hostname: web\n",
		},
		{"no host name", "instance-id: i-1", "instance-id: i-1\nlocal-hostname: \"vm1\"\n"},
		{"null host name", "instance-id: i-1\n  local-hostname: null", "instance-id: i-1\nlocal-hostname: \"vm1\"\n"},
		{
			"more keys, in their order", "zone: b\n  instance-id: i-1\n  area: c\n  local-hostname: web",
			"zone: b\ninstance-id: i-1\narea: c\nlocal-hostname: web\n",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, string(seedOf(t, "vm1", "metaData:\n  "+tc.given).MetaData))
		})
	}
}

func TestTheInstanceChangesWithTheDataOnly(t *testing.T) {
	t.Parallel()
	const data = `
metaData: {zone: a}
userData: {packages: [htop]}
networkConfig: {version: 2}
vendorData: {package_update: true}
`
	id := func(vmName, text string) string {
		var meta struct {
			ID string `yaml:"instance-id"`
		}
		require.NoError(t, yaml.Unmarshal(seedOf(t, vmName, text).MetaData, &meta))
		return meta.ID
	}
	same := id("vm1", data)
	require.Equal(t, same, id("vm1", data))
	require.Equal(t, same, id("vm1", "# a remark\n"+strings.ReplaceAll(data, "{zone: a}", "{zone: a} # remark")),
		"comments")
	require.Regexp(t, "^iid-", id("vm1", `metaData: {instance-id: ""}`), "an empty id is none")
	seen := map[string]string{same: "the original"}
	for change, text := range map[string]string{
		"meta-data":           strings.ReplaceAll(data, "zone: a", "zone: b"),
		"user-data":           strings.ReplaceAll(data, "htop", "btop"),
		"network-config":      strings.ReplaceAll(data, "version: 2", "version: 1"),
		"network-config gone": strings.ReplaceAll(data, "networkConfig: {version: 2}", ""),
		"vendor-data":         strings.ReplaceAll(data, "true", "false"),
		"vendor-data gone":    strings.ReplaceAll(data, "vendorData: {package_update: true}", ""),
		"string, not number":  strings.ReplaceAll(data, "version: 2", "version: '2'"),
	} {
		got := id("vm1", text)
		require.Empty(t, seen[got], "%s gives the same id", change)
		seen[got] = change
	}
	require.Empty(t, seen[id("vm2", data)], "another VM is another instance")
	require.Equal(t, "mine", id("vm1", "metaData: {instance-id: mine}\nuserData: {packages: [htop]}"))
}

func TestValuesStayWhatTheUserWrote(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, given, want string }{
		{
			"quoted words are strings", `{a: "on", b: 'yes', c: "1.10", d: "0644", e: "null"}`,
			"a: \"on\"\nb: 'yes'\nc: \"1.10\"\nd: \"0644\"\ne: \"null\"",
		},
		{
			"plain words are the guest's matter", "{a: on, b: yes, c: 1.10, d: 0644, e: ~, f: 1_000, g: 2026-01-02}",
			"a: on\nb: yes\nc: 1.10\nd: 0644\ne: ~\nf: 1_000\ng: 2026-01-02",
		},
		{"keys keep their order", "z: 1\n  a: 2\n  m: 3", "z: 1\na: 2\nm: 3"},
		{
			"texts keep their lines", "script: |\n    one\n      two\n\n    three",
			"script: |\n  one\n    two\n\n  three",
		},
		{"folded texts keep their meaning", "text: >-\n    one\n    two", "text: |-\n  one two"},
		{"aliases are resolved", "a: &x [1, 2]\n  b: *x", "a: [1, 2]\nb: [1, 2]"},
		{
			"merge keys are resolved", "base: &x {p: 1, q: 2}\n  use: {<<: *x, q: 3}",
			"base: {p: 1, q: 2}\nuse: {p: 1, q: 3}",
		},
		{"earlier merges win", "use:\n    <<: [{p: 1}, {p: 2, q: 2}]", "use:\n  p: 1\n  q: 2"},
		{"nothing stays nothing", "{a: {b: , c: ''}, d: [~]}", "a: {b: null, c: ''}\nd: [~]"},
		{"a quoted << is a key", `{"<<": 1}`, `"<<": 1`},
		{"comments go", "# top\n  a: 1 # side\n  # foot", "a: 1"},
		{"tags stay", "{a: !!str 5, b: !mine x}", "a: !!str 5\nb: !mine x"},
		{"long lines stay whole", "a: " + strings.Repeat("word ", 100) + "end", "a: " + strings.Repeat("word ", 100) +
			"end"},
		{"flow style stays below the top", "{a: [1, {b: 2}], c: {}}", "a: [1, {b: 2}]\nc: {}"},
		{"Unicode stays", "name: Jürgen 😀", `name: "Jürgen \U0001F600"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := seedOf(t, "vm", "userData:\n  "+tc.given+"\n").UserData
			require.Equal(t, "#cloud-config\n"+tc.want+"\n", string(got))
		})
	}
}

func TestAnchorsFromOtherSectionsAreResolved(t *testing.T) {
	t.Parallel()
	seed := seedOf(t, "vm", "networkConfig: &net\n  version: 2\nuserData:\n  network: *net\nvendorData: *net\n")
	require.Equal(t, "version: 2\n", string(seed.NetworkConfig))
	require.Equal(t, "#cloud-config\nnetwork:\n  version: 2\n", string(seed.UserData))
	require.Equal(t, "#cloud-config\nversion: 2\n", string(seed.VendorData))
}

func TestTextsGetAHeaderUnlessTheyBringOne(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	_, err := writer.Write([]byte("#!/bin/sh\n"))
	require.NoError(t, err)
	require.NoError(t, writer.Close())

	for _, tc := range []struct {
		name, text string
		verbatim   bool
	}{
		{"a script", "#!/bin/sh\necho hi\n", true},
		{"a cloud-config", "#cloud-config\npackages: []\n", true},
		{"a cloud-config with DOS lines", "#cloud-config\r\npackages: []\r\n", true},
		{"an archive", "#cloud-config-archive\n- x\n", true},
		{"a JSON patch", "#cloud-config-jsonp\n[]", true},
		{"a jinja template", "## template: jinja\n#cloud-config\n", true},
		{"an include", "#include\nhttp://example.com/x\n", true},
		{"an include once", "#include-once http://example.com/x\n", true},
		{"a boot hook", "#cloud-boothook\necho\n", true},
		{"a part handler", "#part-handler\n", true},
		{"an upstart job", "#upstart-job\n", true},
		{"MIME by its type", "Content-Type: multipart/mixed; boundary=x\nMIME-Version: 1.0\n", true},
		{"MIME by its version", "From: x\nMime-Version: 1.0\n", true},
		{"gzip", packed.String(), true},
		{"another case", "#Cloud-Config\n", true},
		{"white space before", "\n  #!/bin/sh\n", true},
		{"YAML", "packages: [htop]\n", false},
		{"a remark first", "# my configuration\npackages: []\n", false},
		{"a remark that is almost a header", "# cloud-config\na: 1", false},
		{"MIME too far behind", strings.Repeat("#\n", 2048) + "mime-version: 1.0\n", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			want := tc.text
			if !tc.verbatim {
				want = "#cloud-config\n" + want
			}
			value := yaml.Node{
				Kind: yaml.ScalarNode, Tag: "!!binary",
				Value: base64.StdEncoding.EncodeToString([]byte(tc.text)),
			}
			if tc.name != "gzip" {
				value.SetString(tc.text)
			}
			seed, err := (&Config{UserData: value, VendorData: value}).Seed("vm")
			require.NoError(t, err)
			require.Equal(t, want, string(seed.UserData))
			require.Equal(t, want, string(seed.VendorData))
		})
	}
}

func TestBlankTextsAreNone(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`""`, `" \n\t"`, `!!binary ""`} {
		seed := seedOf(t, "vm", "userData: "+text+"\nvendorData: "+text)
		require.Equal(t, "#cloud-config\n{}\n", string(seed.UserData))
		require.Nil(t, seed.VendorData)
	}
}

func TestFaultsNameTheKeyAndTheLine(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, section, want string }{
		{"a list", "metaData: [a]", "cloudInit.metaData: must be a mapping, not a list (line 1)"},
		{"a string", "metaData:\n  i-1", "cloudInit.metaData: must be a mapping, not a string (line 2)"},
		{
			"a text as network-config", "networkConfig: |\n  version: 2",
			"cloudInit.networkConfig: must be a mapping, not a string (line 1)",
		},
		{"a number", "userData: 5", "cloudInit.userData: must be a mapping or text, not a number (line 1)"},
		{"a list of commands", "vendorData:\n- ls", "cloudInit.vendorData: must be a mapping or text, not a list (line 2)"},
		{"a boolean", "userData: true", "cloudInit.userData: must be a mapping or text, not a boolean (line 1)"},
		{"a date", "userData: 2026-01-02", "cloudInit.userData: must be a mapping or text, not a value of type timestamp (line 1)"},
		{"a strange id", "metaData:\n  instance-id: [x]", "cloudInit.metaData.instance-id: must be a string, not a list (line 2)"},
		{
			"a strange host name", "metaData:\n  local-hostname: {}",
			"cloudInit.metaData.local-hostname: must be a string, not a mapping (line 2)",
		},
		{
			"a key twice", "userData:\n  a: 1\n  b: {c: 1,\n    c: 2}",
			`cloudInit.userData: the key "c" exists twice (line 4)`,
		},
		{"a loop", "userData: &a\n  b: *a", `cloudInit.userData: the anchor "a" contains itself (line 2)`},
		{"a merge of a string", "userData: {<<: x}", "cloudInit.userData: the value of the merge key << must be a mapping, not a string (line 1)"},
		{"no base64", "userData: !!binary '*'", "cloudInit.userData: !!binary holds no base64: illegal base64 data at input byte 0 (line 1)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := section(t, tc.section).Seed("vm")
			require.EqualError(t, err, tc.want)
			var keyError *KeyError
			require.ErrorAs(t, err, &keyError)
			require.Positive(t, keyError.Column)
		})
	}
}

func TestAllFaultsAreReported(t *testing.T) {
	t.Parallel()
	_, err := section(t, "metaData: [secret]\nuserData: [secret]\nnetworkConfig: [secret]\nvendorData: [secret]").Seed("vm")
	joined, ok := err.(interface{ Unwrap() []error })
	require.True(t, ok)
	require.Len(t, joined.Unwrap(), 4)
	require.NotContains(t, err.Error(), "secret")
}

func TestAliasBombsAreDefused(t *testing.T) {
	t.Parallel()
	bomb := "userData:\n  a0: &a0 [x]\n"
	for i := range 30 {
		a, b := string(rune('a'+i/10))+string(rune('0'+i%10)), string(rune('a'+(i+1)/10))+string(rune('0'+(i+1)%10))
		bomb += "  " + b + ": &" + b + " [*" + a + ", *" + a + "]\n"
	}
	_, err := section(t, bomb).Seed("vm")
	require.ErrorContains(t, err, "more than 1048576 keys and values once aliases are followed")

	long := "userData:\n  a: &a " + strings.Repeat("x", 1<<20) + "\n  b: [" + strings.Repeat("*a, ", 80) + "]\n"
	_, err = section(t, long).Seed("vm")
	require.ErrorContains(t, err, "more than 64 MiB once aliases are followed")
}

// The alias limits are exact: they bound the memory of the program that reads the configuration.
func TestLimitsOfAliasesAreExact(t *testing.T) {
	t.Parallel()
	text := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "xy"}
	for problem, tt := range map[string]struct{ last, first resolver }{
		"more than 1048576 keys": {resolver{nodes: 1<<20 - 1}, resolver{nodes: 1 << 20}},
		"more than 64 MiB":       {resolver{size: 64<<20 - 2}, resolver{size: 64<<20 - 1}},
	} {
		_, err := tt.last.copyNode(text)
		require.NoError(t, err, problem)
		_, err = tt.first.copyNode(text)
		require.ErrorContains(t, err, problem)
	}
}

func TestReadingLeavesTheConfigurationAlone(t *testing.T) {
	t.Parallel()
	c := section(t, "metaData: {zone: a}\nuserData: {x: &x [1], y: *x}")
	first, err := c.Seed("vm1")
	require.NoError(t, err)
	second, err := c.Seed("vm1")
	require.NoError(t, err)
	require.Equal(t, first, second)
	require.Len(t, c.MetaData.Content, 2)
}

// FuzzYAML checks that parsing the rendered YAML of each section returns the original values, apart from the ones added
// to meta-data.
func FuzzYAML(f *testing.F) {
	for _, text := range []string{
		"a: 1", "{a: [b, {c: d}]}", "a: |\n  x\n   y\n", "a: \"\\n  x\"", "a: >+\n  x\n\n", "? [a]\n: b",
		"a: &x {b: c}\nd: {<<: *x}",
		"a: !!str 5", "'': ''", "a: \"\\x00\\u2028\"", "a: '#'", "- : x", "a: \" lead\\nand trail \"", "a: |2\n    x\n",
		"instance-id: 5", "local-hostname: ", "instance-id: &x ~\nlocal-hostname: *x",
		"version: 2\nethernets: {e: {addresses: [10.0.0.1/8]}}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, section := range []string{"metaData", "userData", "networkConfig"} {
			requireSameMeaning(t, section, text)
		}
	})
}

func requireSameMeaning(t *testing.T, section, text string) {
	t.Helper()
	var c Config
	node := map[string]*yaml.Node{
		"metaData": &c.MetaData, "userData": &c.UserData,
		"networkConfig": &c.NetworkConfig,
	}[section]
	if yaml.Unmarshal([]byte(text), node) != nil {
		return
	}
	before, err := resolveNode(section, node)
	if err != nil || before == nil || before.Kind != yaml.MappingNode || len(before.Content) == 0 {
		return
	}
	seed, err := c.Seed("vm")
	if err != nil {
		var keyError *KeyError
		require.True(t, errors.As(err, &keyError), err)
		return
	}
	written := map[string][]byte{
		"metaData": seed.MetaData, "userData": seed.UserData,
		"networkConfig": seed.NetworkConfig,
	}[section]
	var again yaml.Node
	require.NoError(t, yaml.Unmarshal(written, &again), "%s", written)
	after, err := resolveNode(section, &again)
	require.NoError(t, err)
	if section == "metaData" {
		for _, n := range []*yaml.Node{before, after} {
			for _, key := range []string{"local-hostname", "instance-id"} {
				value, err := scalarEntry(n, key)
				require.NoError(t, err)
				require.True(t, n == before || value.Value != "", "%s in %q", key, written)
				if value.Value == "" || strings.HasPrefix(value.Value, "iid-") || value.Value == "vm" {
					setString(value, "completed")
				}
			}
		}
	}
	require.Equal(t, values(before), values(after), "%s %q became %q", section, text, written)
}

// values lists the meaning of a resolved node, without styles and lines.
func values(n *yaml.Node) []string {
	out := []string{n.ShortTag() + " " + n.Value}
	for _, child := range n.Content {
		out = append(out, values(child)...)
	}
	return append(out, "end")
}
