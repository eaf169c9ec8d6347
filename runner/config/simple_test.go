package config

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

// What is written as it is, is written as the library would write it.
func TestSimple(t *testing.T) {
	t.Parallel()
	values := []any{true, false, 0, -1, 4096, int64(1) << 62}
	for _, text := range []string{
		"vm", "maximumRam", "/Runner", "/dev/system-disk", "/var/local/vm-data", "a.b_c-d", "A1", "e", "E5", "inf", "nan", "NaN", "None", "x0x1",
		"nil", "nulls", "trueish", "/", "//", "a-", "a.", "ff", "yes1", "virtio-net", "x86_64", "o17", "b101",
	} {
		require.NotNil(t, simple(text), text)
		values = append(values, text)
	}
	for _, value := range values {
		n := &yaml.Node{}
		require.NoError(t, n.Encode(value))
		want, err := yaml.Marshal(map[string]any{"k": n})
		require.NoError(t, err)
		got, err := yaml.Marshal(map[string]any{"k": simple(value)})
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	}
	for _, text := range []string{
		"", "null", "Null", "NULL", "~", "true", "False", "yes", "No", "ON", "off", "y", "N", "<<", "1", "1e3", "0x10", "12:30", ".inf", "-", "- a", "a: b", "a b", "a#b",
		"*a", "&a", "!a", "=", "2026-01-01", "é", "a\nb", "a'b", `a"b`, "1.2.3", "-a", "_1", "@", "`",
	} {
		require.Nil(t, simple(text), text)
	}
}
