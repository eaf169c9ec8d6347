package adopt_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/adopt"
	"vmop/authoring/sample"
	"vmop/test/tier"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// A plan that someone has edited is adopted completely, or the rest is reported: whatever differs between the edited
// plan and the plan of the proposal is in Rest. This holds for every sample of the stock types and of the examples.
func TestEditedPlans(t *testing.T) {
	t.Parallel()
	checkEditedPlans(t, 1)
}

// The same with many edits.
func TestManyEditedPlans(t *testing.T) {
	t.Parallel()
	tier.Deep(t)
	checkEditedPlans(t, 6)
}

func checkEditedPlans(t *testing.T, draws int) {
	t.Helper()
	examples, err := vmtypes.ReadSource("../../examples/vmtypes")
	require.NoError(t, err)
	empty := 0
	for _, dir := range []string{"../../vmtypes/testdata/golden", "../../examples/vmtypes"} {
		paths, err := sample.Find(dir)
		require.NoError(t, err)
		require.NotEmpty(t, paths)
		for _, path := range paths {
			s, err := sample.Read(path)
			require.NoError(t, err)
			if strings.Count(s.Text, "\n") > 150 {
				continue // larger plans only repeat the same options
			}
			section, err := sample.SectionOf(path)
			require.NoError(t, err)
			for n := range draws {
				r := rand.New(rand.NewPCG(uint64(n), uint64(len(path))))
				name := fmt.Sprintf("%s, draw %d", filepath.Base(path), n)
				if adoptEdited(t, name, s, section, examples, editPlan(r, s.Text)) {
					empty++
				}
			}
		}
	}
	require.Positive(t, empty, "at least one edit must have been adopted completely")
}

// editPlan drops, changes and adds options of a printed plan.
func editPlan(r *rand.Rand, text string) string {
	lines := strings.Split(text, "\n")
	for range 1 + r.IntN(4) {
		at := r.IntN(len(lines))
		option, isOption := strings.CutPrefix(lines[at], "    -")
		if !isOption {
			if strings.HasPrefix(lines[at], "rule ") {
				lines = slices.Delete(lines, at, at+1)
			}
			continue
		}
		switch r.IntN(4) {
		case 0:
			lines = slices.Delete(lines, at, at+1)
		case 1:
			if strings.Contains(option, "=") {
				lines[at] += fmt.Sprintf(",x-new=%d", r.IntN(9))
			}
		case 2:
			if strings.Contains(option, "addr=0x") {
				lines[at] = strings.Replace(lines[at], "addr=0x", "addr=0x1", 1)
			} else {
				lines[at] = strings.Replace(lines[at], "=on", "=off", 1)
			}
		case 3:
			added := []string{
				"-device edu,addr=0x19", "-global edu.x=1", "-device usb-kbd,id=kbd9,bus=usb.0,port=9", "-no-reboot",
				"-object iothread,id=io9", "-smbios type=11,value=a,,b", "-chardev null,id=nowhere", "-S",
				"-fw_cfg name=opt/x,string=hello", "-device pvpanic-pci,id=second,addr=0x1a",
			}
			lines = slices.Insert(lines, at, "    "+added[r.IntN(len(added))])
		}
	}
	return strings.Join(lines, "\n")
}

// adoptEdited adopts a plan and reports whether nothing was left.
func adoptEdited(
	t *testing.T, name string, s *sample.Sample, section string, source vmtypes.Source, edited string,
) bool {
	t.Helper()
	base := s.Type
	if source.Modules[base+".star"] != "" {
		base = "standard"
		if slices.Contains(s.Host.Files, "debian-12-arm64") {
			base = "arm64"
		}
	}
	command, err := adopt.Parse([]byte(edited))
	require.NoError(t, err, name)
	bases := []string{base}
	if base != s.Type { // the options of the example are unknown to the stock type
		section = withoutOptions(section)
	}
	p, err := adopt.Propose(t.Context(), adopt.Request{
		Command: command, New: "mine", Bases: bases, Section: section, Host: s.Host, Evaluator: inProcess{},
	})
	require.NoError(t, err, name)
	require.NotEmpty(t, p.Plan.QEMU.Args, name)
	checkRest(t, name, edited, p)
	return len(p.Rest) == 0
}

func withoutOptions(section string) string {
	var kept []string
	skip := false
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "-") {
			skip = strings.HasPrefix(line, "options:")
		}
		if !skip {
			kept = append(kept, line)
		}
	}
	return strings.Join(append(kept, ""), "")
}

// checkRest compares the lines of both plans without this package: each line that differs must be reported.
func checkRest(t *testing.T, name, edited string, p *adopt.Proposal) {
	t.Helper()
	reported, flags := map[int]bool{}, map[string]bool{}
	for _, r := range p.Rest {
		require.NotEmpty(t, r.Reason, name)
		reported[r.Line] = true
		flag, _, _ := strings.Cut(r.Option, " ")
		flags[strings.TrimSuffix(flag, ":")] = true
	}
	got := map[string]int{}
	for _, line := range strings.Split(p.Plan.Text(), "\n") {
		got[normalLine(line)]++
	}
	for i, line := range strings.Split(edited, "\n") {
		switch {
		case !strings.HasPrefix(line, "    -") || insideHelper(edited, i):
		case got[normalLine(line)] > 0:
			got[normalLine(line)]--
		default:
			require.True(t, reported[i+1], "%s: line %d isn't in the plan, and not reported: %s\n%s\n%v", name, i+1,
				line, p.After,
				p.Rest)
		}
	}
	for line, n := range got {
		if n > 0 && strings.HasPrefix(line, "    -") && !insideHelper(p.Plan.Text(), lineOf(p.Plan.Text(), line)) {
			flag, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			require.True(t, flags[flag], "%s: only in the plan, and not reported: %s\n%s\n%v", name, line, p.After,
				p.Rest)
		}
	}
}

func lineOf(text, normal string) int {
	return slices.IndexFunc(strings.Split(text, "\n"), func(l string) bool { return normalLine(l) == normal })
}

// insideHelper reports whether a line of a plan belongs to a process other than QEMU.
func insideHelper(text string, at int) bool {
	for _, line := range slices.Backward(strings.Split(text, "\n")[:max(at, 0)]) {
		if !strings.HasPrefix(line, " ") {
			return !strings.HasPrefix(line, "qemu ")
		}
	}
	return true
}

// normalLine returns an option with its properties in a fixed order.
func normalLine(line string) string {
	flag, value, found := strings.Cut(strings.TrimPrefix(line, "    "), " ")
	if !found || !strings.HasPrefix(line, "    -") {
		return line
	}
	o := plan.Option{Flag: flag, Value: value}.Structured()
	words := []string{}
	for _, p := range o.Properties {
		words = append(words, p.Key+"="+p.Value)
	}
	slices.Sort(words)
	return "    " + o.Flag + " " + strings.Join(append([]string{o.Value}, words...), ",")
}
