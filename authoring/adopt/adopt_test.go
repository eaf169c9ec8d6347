package adopt_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/adopt"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// inProcess evaluates types without a sandbox.
type inProcess struct{}

func (inProcess) Launch(
	ctx context.Context, source vmtypes.Source, name string, vm vmspec.Spec, host vmtypes.Host,
) (*plan.Plan, error) {
	t, err := source.Library().Load(ctx, name)
	if err != nil {
		return nil, err
	}
	return t.Launch(ctx, vm, host)
}

func (inProcess) Describe(ctx context.Context, source vmtypes.Source, name string) (vmtypes.Description, error) {
	t, err := source.Library().Load(ctx, name)
	if err != nil {
		return vmtypes.Description{}, err
	}
	return t.Describe(), nil
}

// Each command line in testdata is written in the style of a well-known tool. The golden contains the whole proposal.
func TestCommandLines(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(paths), 10)
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			command, err := adopt.Parse(text)
			require.NoError(t, err)
			p, err := adopt.Propose(t.Context(), adopt.Request{
				Command: command, New: "mine", Bases: stockTypes(), Evaluator: inProcess{},
			})
			require.NoError(t, err)
			golden := strings.TrimSuffix(path, ".txt") + ".golden"
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(show(p)), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), show(p))
		})
	}
}

func show(p *adopt.Proposal) string {
	var b strings.Builder
	fmt.Fprintf(&b, "type %s on %s\n\n%s\n-- vm --\n%s-- rest --\n", p.Type, p.Base, p.After, p.Section)
	for _, r := range p.Rest {
		fmt.Fprintf(&b, "%d: %s\n    %s\n", r.Line, r.Option, r.Reason)
	}
	fmt.Fprintf(&b, "-- plan --\n%s", p.Plan.Text())
	return b.String()
}

// stockTypes returns the names of the stock types.
func stockTypes() []string {
	return append([]string{"standard"}, (vmtypes.Source{}).Library().Names()...)
}
