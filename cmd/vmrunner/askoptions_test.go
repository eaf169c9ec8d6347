package main

import (
	"bufio"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmtypes"
)

// A mandatory list can be given on a terminal.
func TestCreateAsksForMandatoryListsAndDicts(t *testing.T) {
	t.Parallel()
	var shown strings.Builder
	q := &questions{
		in:   bufio.NewReader(strings.NewReader("\nno list\n[hugo, emma]\nno\n{a: 1}\n")),
		show: func(text ...any) { fmt.Fprint(&shown, text...) },
	}
	option := func(name, kind string, mandatory bool) vmtypes.Option {
		return vmtypes.Option{Name: name, Attr: vmtypes.Attr{Type: kind, Mandatory: mandatory}}
	}
	var c creation
	require.NoError(t, c.askOptions(q, vmtypes.Description{Options: []vmtypes.Option{
		option("users", "list", true), option("labels", "dict", true),
	}}))
	require.Equal(t, []string{"vm.options.users=[hugo, emma]", "vm.options.labels={a: 1}"}, c.draft.Settings)
	require.Contains(t, shown.String(), "must be a list in YAML, such as [a, b]")
	require.Contains(t, shown.String(), "must be a dict in YAML, such as {a: b}")
}

// Questions have the labels of options, below the headings of their groups, and check answers like a configuration.
func TestCreateAsksWithLabelsAndGroups(t *testing.T) {
	t.Parallel()
	var shown strings.Builder
	q := &questions{
		in:   bufio.NewReader(strings.NewReader("yes\n5 min\n5m\n\nops\nOPS-1\n\n")),
		show: func(text ...any) { fmt.Fprint(&shown, text...) },
	}
	var c creation
	require.NoError(t, c.askOptions(q, vmtypes.Description{Options: []vmtypes.Option{
		{Name: "idle", Attr: vmtypes.Attr{Type: "duration", Label: "Idle time", Group: "Times", Default: int64(90)}},
		{Name: "old", Attr: vmtypes.Attr{Type: "string", Deprecated: "use ticket"}},
		{Name: "ticket", Attr: vmtypes.Attr{Type: "string", Pattern: "[A-Z]+-[0-9]+", Like: "OPS-17", Group: "Change"}},
		{Name: "tier", Attr: vmtypes.Attr{Type: "string", DefaultRule: "gold in production", Group: "Change"}},
		{Name: "wait", Attr: vmtypes.Attr{Type: "duration", Group: "Times", Default: int64(60)}},
	}}))
	require.Equal(t, []string{"vm.options.idle=5m", `vm.options.ticket="OPS-1"`}, c.draft.Settings)
	require.Equal(t, "Set options of the VM type ? [no]: "+
		"\nTimes\nIdle time [1m30s]: \"5 min\" is not a duration (did you mean m?)\nIdle time [1m30s]: wait [1m]: "+
		"\nChange\nticket [none]: must be like \"OPS-17\", not \"ops\"\nticket [none]: tier [gold in production]: ",
		shown.String())
}
