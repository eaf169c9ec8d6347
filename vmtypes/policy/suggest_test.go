package policy_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/sample"
	"vmop/vmtypes"
	"vmop/vmtypes/policy"
)

// usesIn returns the plans of the samples in a folder, as those of types in /types.
func usesIn(t *testing.T, dir string) []policy.Use {
	t.Helper()
	library, err := vmtypes.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = library.Close() })
	paths, err := sample.Find(dir)
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	var uses []policy.Use
	for _, path := range paths {
		s, err := sample.Read(path)
		require.NoError(t, err)
		made, err := s.Plan(t.Context(), library)
		require.NoError(t, err)
		host := s.Host.Host()
		uses = append(uses, policy.Use{Plan: made, Subject: policy.Subject{
			Folder: "/types", DataDir: host.DataDir, RuntimeDir: host.RuntimeDir, Sample: true, Options: s.VM.Options,
		}})
	}
	return uses
}

// allows reports whether a policy with these rules allows all plans.
func allows(t *testing.T, rules string, uses []policy.Use) bool {
	t.Helper()
	p, err := policy.Read("policy.yaml", []byte("rules:\n"+rules))
	require.NoError(t, err, rules)
	for _, u := range uses {
		if p.Check(u.Plan, u.Subject) != nil {
			return false
		}
	}
	return true
}

// A suggested rule allows the plans. Without any of its lines, it denies one.
func TestSuggestedRuleIsSmallest(t *testing.T) {
	t.Parallel()
	examples := usesIn(t, "../../examples/vmtypes")
	machines := usesIn(t, "../testdata/golden")
	for i := range machines {
		machines[i].Subject.Folder = "/types"
	}
	sets := [][]policy.Use{examples, machines}
	for _, u := range examples {
		sets = append(sets, []policy.Use{u})
	}
	for _, uses := range sets {
		rule, replaces, added, err := (*policy.Policy)(nil).Suggest(uses)
		require.NoError(t, err)
		require.Empty(t, replaces)
		require.True(t, allows(t, rule, uses), rule)
		removable := 0
		for _, without := range withoutWords(rule) {
			removable++
			require.False(t, allows(t, without, uses), "unnecessary:\n%s\nleft:\n%s", rule, without)
		}
		require.Equal(t, added, removable, rule)
	}
}

// withoutWords returns the rule without each of its words.
func withoutWords(rule string) []string {
	var list []string
	lines := strings.SplitAfter(rule, "\n")
	for i, line := range lines {
		trimmed := strings.TrimSpace(line)
		end := i + 1
		switch {
		case strings.HasPrefix(trimmed, "unsandboxed"):
		case !strings.HasPrefix(line, "      - "):
			continue
		case strings.HasPrefix(lines[end], "        arguments"):
			end++
		}
		list = append(list, strings.Join(lines[:i], "")+strings.Join(lines[end:], ""))
	}
	return list
}

// A rule of the policy is completed, with the line of the type that needs each word.
func TestSuggestCompletesARule(t *testing.T) {
	t.Parallel()
	const key = "-----BEGIN PUBLIC KEY-----\n        MCowBQYDK2VwAyEAlZZEg+AROreSfJanRDz4eWlKb4TPM0oH9glmiM63naE=\n" +
		"        -----END PUBLIC KEY-----\n"
	p, err := policy.Read("policy.yaml", []byte(strings.Replace(strict, "[/opt/web/**]",
		"[/types]\n    signedBy:\n      - |\n        "+key, 1)))
	require.NoError(t, err)
	add := `part(options = [
        option("-device", "usb-mtp", {"rootdir": "/etc"}),
        option("-device", "vfio-pci", {"host": "0000:04:00.0", "x-y": "a,b"}),
        option("-set", "device.a.b=c"),
    ])`
	use := policyUse(t, add)
	rule, replaces, added, err := p.Suggest([]policy.Use{use})
	require.NoError(t, err)
	require.Equal(t, "policy.yaml:3", replaces)
	require.Equal(t, 4, added, rule)
	require.True(t, allows(t, rule, []policy.Use{use}), rule)
	for _, want := range []string{
		"      # mine.star:5 launch: -device usb-mtp,rootdir=/etc\n      - usb-mtp\n",
		"      - '-device vfio-pci,host=0000:04:00.0,x-y=a*b'\n",
		"      - '-set device.a.b=c'\n",
	} {
		require.Contains(t, rule, want)
	}
	completed, err := policy.Read("policy.yaml", []byte("rules:\n"+rule))
	require.NoError(t, err)
	require.Equal(t, p.Rules[0].SignedBy, completed.Rules[0].SignedBy)
	_, _, added, err = completed.Suggest([]policy.Use{use})
	require.NoError(t, err)
	require.Zero(t, added)

	// No rule can allow a program whose path is not clean.
	use.Plan.QEMU.Executable = "/usr/./bin/qemu-system-x86_64"
	_, _, _, err = p.Suggest([]policy.Use{use})
	require.ErrorContains(t, err, "the program /usr/./bin/qemu-system-x86_64 is not in its list programs")
}

// policyUse returns the plan of the standard type with an addition.
func policyUse(t *testing.T, add string) policy.Use {
	t.Helper()
	text := `load("@vmtypes//standard.star", standard = "launch")

def launch(vm, host):
    return combine(standard(vm, host), ` + add + `)
`
	library := vmtypes.Source{Modules: map[string]string{"mine.star": text}}.Library()
	loaded, err := library.Load(t.Context(), "mine")
	require.NoError(t, err)
	spec, err := sample.ParseVM([]byte("network: []\n"))
	require.NoError(t, err)
	host := sample.HostFacts{}.Host()
	made, err := loaded.Launch(t.Context(), spec, host)
	require.NoError(t, err)
	return policy.Use{Plan: made, Subject: policy.Subject{
		Folder: "/types", DataDir: host.DataDir, RuntimeDir: host.RuntimeDir, Sample: true,
	}}
}
