package compare

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/sample"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// The tables contain everything that the stock types and the examples use, so that the meaning of a change is known.
// The test lists the exceptions.
func TestTablesKnowTheStockTypes(t *testing.T) {
	t.Parallel()
	seen := map[string]Meaning{}
	library, err := vmtypes.Open("../../examples/vmtypes")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, library.Close()) })
	for _, dir := range []string{"../../vmtypes/testdata/golden", "../../examples/vmtypes"} {
		paths, err := sample.Find(dir)
		require.NoError(t, err)
		for _, path := range paths {
			s, err := sample.Read(path)
			require.NoError(t, err)
			p, err := s.Plan(t.Context(), library)
			require.NoError(t, err)
			if len(p.QEMU.Args) < 150 { // larger plans only repeat the same options
				recordMeanings(seen, p)
			}
		}
	}
	require.GreaterOrEqual(t, len(seen), 150)
	unknown := []string{}
	for what, m := range seen {
		require.NotEmpty(t, m.Explain().Title, "%s", what)
		if m == Unknown {
			unknown = append(unknown, what)
		}
	}
	slices.Sort(unknown)
	require.Empty(t, unknown, "say what a change of these means for a guest, in the table of vmtypes/qemuopt")
}

// recordMeanings removes each option, and each property of an option, from a plan.
func recordMeanings(seen map[string]Meaning, p *plan.Plan) {
	for i := range p.QEMU.Args {
		o := p.QEMU.Args[i]
		less := *p
		less.QEMU.Args = slices.Delete(slices.Clone(p.QEMU.Args), i, i+1)
		what := o.Flag + " " + o.Value
		for _, c := range comparePlans(p, &less) {
			if c.Subject == optionName(&o) {
				seen[what] = c.Meaning
			}
		}
		for j, property := range o.Properties {
			changed := o
			changed.Properties = slices.Clone(o.Properties)
			changed.Properties[j].Value += "9"
			changed.Properties[j].Descriptor = ""
			other := *p
			other.QEMU.Args = slices.Clone(p.QEMU.Args)
			other.QEMU.Args[i] = changed
			for _, c := range comparePlans(p, &other) {
				if c.Property == property.Key {
					seen[what+" "+property.Key] = c.Meaning
				}
			}
		}
	}
}
