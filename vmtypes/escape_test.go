package vmtypes_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmtypes/plan"
)

// Texts in a configuration that must each remain one value.
var trickyValues = []string{
	"",
	"a,b", "a,,b", ",", ",,", ",id=evil", "a=b", "=", "a,b=c,", "it's \"quoted\"", "%s%n", "\\", "\\,", " blanks ",
	"tab\tline\nend", "ä€𐍈", "{}", "help", "on",
}

// The real QEMU reads each value as the plan contains it. QEMU has two parsers for options: QemuOpts (-device, -name)
// and keyval (-object).
func TestQEMUReadsValuesAsTheyAreMeant(t *testing.T) {
	t.Parallel()
	property := func(key, value string) plan.Property { return plan.Property{Key: key, Value: value} }
	q := plan.Process{Name: "qemu", Args: []plan.Option{
		{Flag: "-machine", Value: "q35"},
		{Flag: "-accel", Value: "tcg"},
		{Flag: "-S"},
		{Flag: "-nodefaults"},
		{Flag: "-display", Value: "none"},
		{Flag: "-qmp", Value: "stdio"},
		{Flag: "-device", Value: "virtio-serial-pci,max_ports=31"},
		{Flag: "-name", List: true, Properties: []plan.Property{property("guest", strings.Join(trickyValues, ""))}},
	}}
	commands := `{"execute": "qmp_capabilities"}{"execute": "query-name"}`
	for i, value := range trickyValues {
		object, port := fmt.Sprintf("object%d", i), fmt.Sprintf("port%d", i)
		q.Args = append(
			q.Args,
			plan.Option{
				Flag: "-object", Value: "authz-simple", List: true,
				Properties: []plan.Property{property("id", object), property("identity", value)},
			},
			plan.Option{
				Flag: "-device", Value: "virtserialport", List: true,
				Properties: []plan.Property{property("id", port), property("name", value)},
			},
		)
		commands += fmt.Sprintf(`{"execute": "qom-get", "arguments": {"path": "/objects/%s", "property": "identity"}}`,
			object)
		commands += fmt.Sprintf(`{"execute": "qom-get", "arguments": {"path": "/machine/peripheral/%s", "property": "name"}}`, port)
	}
	cmd := exec.CommandContext(t.Context(), program(t, "qemu-system-x86_64", "qemu-system-x86"), q.Argv()...)
	cmd.Stdin = strings.NewReader(commands + `{"execute": "quit"}`)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s", &stderr)

	answers := returned(t, out)
	require.Len(t, answers, 2*len(trickyValues)+3)
	var name struct{ Name string }
	require.NoError(t, json.Unmarshal(answers[1], &name))
	require.Equal(t, strings.Join(trickyValues, ""), name.Name)
	for i, value := range trickyValues {
		for _, answer := range answers[2+2*i : 4+2*i] {
			var got string
			require.NoError(t, json.Unmarshal(answer, &got))
			require.Equal(t, value, got)
		}
	}
}

// returned reads the answers of a QMP conversation without errors.
func returned(t *testing.T, out []byte) (answers []json.RawMessage) {
	t.Helper()
	for line := range bytes.Lines(out) {
		var message struct{ Return, Error json.RawMessage }
		require.NoError(t, json.Unmarshal(line, &message))
		require.Empty(t, message.Error, "%s", line)
		if message.Return != nil {
			answers = append(answers, message.Return)
		}
	}
	return answers
}
