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
