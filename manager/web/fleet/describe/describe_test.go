package describe

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/internal/yamlfile"
	"vmop/manager/web/fleet"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/policy"
)

// The options of a stock type have their texts, defaults, values and limits.
func TestTypeWithOptions(t *testing.T) {
	t.Parallel()
	windows, err := vmtypes.Source{}.Library().Load(t.Context(), "windows")
	require.NoError(t, err)
	got := Type(windows.Describe())
	require.Equal(t, "windows", got.Name)
	require.Equal(t, "a PC for Windows 11 and its kin, which need secure boot and a TPM 2.0.", got.Doc)
	byName := map[string]fleet.Option{}
	for _, o := range got.Options {
		byName[o.Name] = o
	}
	require.Equal(t, fleet.Option{
		Name: "tpm", Kind: "bool", Default: "true", Doc: "A TPM 2.0, as with vm.useTpm. Windows 11 needs it.",
	}, byName["tpm"])
	require.Equal(t, []string{"virtio", "sata"}, byName["diskBus"].Values)
	require.Equal(t, "virtio", byName["diskBus"].Default)
	least := int64(1 << 20)
	made := Type(vmtypes.Description{Name: "mine", Options: []vmtypes.Option{
		{Name: "cache", Attr: vmtypes.Attr{Type: "size", Default: int64(64 << 20), Minimum: &least, Mandatory: true}},
		{Name: "count", Attr: vmtypes.Attr{Type: "int", Default: int64(3), Values: []any{int64(3), int64(4)}}},
		{Name: "tags", Attr: vmtypes.Attr{Type: "list", Default: []any{"a", int64(1)}}},
		{Name: "idle", Attr: vmtypes.Attr{
			Type: "duration", Maximum: new(int64(3600)), Values: []any{int64(90)}, Label: "Idle", Group: "Times",
			DefaultRule: "long", Deprecated: "use x",
		}},
		{Name: "id", Attr: vmtypes.Attr{Type: "string", Pattern: "[a-z]", Like: "b", MinLength: new(int64(1))}},
		{Name: "n", Attr: vmtypes.Attr{Type: "int", RequiredIf: []vmtypes.Condition{{Option: "id", Text: "id is x"}}}},
	}})
	require.Equal(t, []fleet.Option{
		{Name: "cache", Kind: "size", Default: "64 MiB", Minimum: &least, Mandatory: true},
		{Name: "count", Kind: "int", Default: "3", Values: []string{"3", "4"}},
		{Name: "tags", Kind: "list", Default: `["a",1]`},
		{
			Name: "idle", Kind: "duration", Label: "Idle", Group: "Times", DefaultRule: "long", Deprecated: "use x",
			Rules: "at most 1h", Values: []string{"1m30s"},
		},
		{Name: "id", Kind: "string", Example: "b", Rules: "like b, at least 1 character"},
		{Name: "n", Kind: "int", Rules: "required if id is x"},
	}, made.Options)
}

// Every error of a check becomes a Fault with its field.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want fleet.Faults
	}{
		{
			yamlfile.Faults{{File: "web.yaml", Line: 3, Path: "vm.name", Message: "want one", Hint: "web"}},
			fleet.Faults{{Path: "vm.name", Line: 3, Message: "want one (web)"}},
		},
		{
			yamlfile.Faults{{File: yamlfile.SetFile, Line: 3, Path: "vm.name", Message: "want one"}},
			fleet.Faults{{Path: "vm.name", Message: "want one"}},
		},
		{
			&vmtypes.FieldsError{Faults: []vmspec.Fault{{Path: "vm.options.tpm", Message: "want a boolean"}}},
			fleet.Faults{{Path: "vm.options.tpm", Message: "want a boolean"}},
		},
		{&vmtypes.FaultsError{Faults: []plan.Fault{{Message: "no disk"}}}, fleet.Faults{{Message: "no disk"}}},
		{
			&policy.Error{Violations: []policy.Violation{{What: "-object", Why: "not allowed"}}},
			fleet.Faults{{Message: (policy.Violation{What: "-object", Why: "not allowed"}).String()}},
		},
		{
			&vmtypes.Error{Message: "fail: vm.display: no screen"},
			fleet.Faults{{Path: "vm.display", Message: "vm.display: no screen"}},
		},
		{
			vmtypes.Errors{{Message: "vm.drives[1].bus is odd"}, {Message: "division by zero"}},
			fleet.Faults{{Path: "vm.drives[1].bus", Message: "vm.drives[1].bus is odd"}, {Message: "division by zero"}},
		},
		{errors.New("connection reset"), nil},
		{nil, nil},
	} {
		require.Equal(t, c.want, Faults(c.err), "%v", c.err)
		if c.want != nil {
			require.Equal(t, c.want, Faults(fmt.Errorf("check: %w", c.err)))
		}
	}
}
