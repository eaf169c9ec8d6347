package yamlfile

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"vmop/vmspec"
)

// Scalars written without quotes match the library's output.
func TestSimple(t *testing.T) {
	t.Parallel()
	values := []any{true, false, 0, -1, 4096, int64(1) << 62}
	for _, text := range []string{
		"vm", "maximumRam", "/Runner", "/dev/system-disk", "/var/local/vm-data", "a.b_c-d", "A1", "e", "E5", "inf",
		"nan", "NaN", "None", "x0x1",
		"nil", "nulls", "trueish", "/", "//", "a-", "a.", "ff", "yes1", "virtio-net", "x86_64", "o17", "b101",
		"4 GiB", "512 MiB", "0e984725-c51c-4bf4-9960-000000000001", "12345678-1234-1234-1234-123456789012",
		"00000000-0000-0000-0000-000000000000",
		"ABCDEF01-e000-4000-8000-00000000000e",
	} {
		require.NotNil(t, plainScalar(text), text)
		values = append(values, text)
	}
	for _, value := range values {
		n := &yaml.Node{}
		require.NoError(t, n.Encode(value))
		want, err := yaml.Marshal(map[string]any{"k": n})
		require.NoError(t, err)
		got, err := yaml.Marshal(map[string]any{"k": plainScalar(value)})
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	}
	require.Nil(t, plainScalar(hiddenText("secret")), "it is written as it says")
	require.NotNil(t, plainScalar(vmspec.AcceleratorTCG))
	for _, text := range []string{
		"", "null", "Null", "NULL", "~", "true", "False", "yes", "No", "ON", "off", "y", "N", "<<", "1", "1e3", "0x10",
		"12:30", ".inf", "-", "- a", "a: b", "a b", "a#b",
		"*a", "&a", "!a", "=", "2026-01-01", "é", "a\nb", "a'b", `a"b`, "1.2.3", "-a", "_1", "@", "`",
		"4 GB", " GiB", "4 ", "4  GiB", "12345678-1234-1234-1234-12345678901", "12345678-1234-1234-123451234567890123",
		"2345678g-1234-1234-1234-123456789012",
	} {
		require.Nil(t, plainScalar(text), text)
	}
}

// Written scalars are read back as the same values: texts that look like another type stay texts, and floats stay
// floats.
func TestWrittenScalarsAreReadAsTheSame(t *testing.T) {
	t.Parallel()
	values := map[string]any{
		"<<": "<<", "yes": "yes", "empty": "", "number": "12", "lines": "a\nb",
		"whole": 3.0, "float": 1.5, "int": 7, "on": true,
	}
	text, err := Write(values)
	require.NoError(t, err)
	var again map[string]any
	require.NoError(t, yaml.Unmarshal(text, &again), "%s", text)
	require.Equal(t, values, again, "%s", text)
}

// hiddenText is a text with its own marshaller.
type hiddenText string

func (hiddenText) MarshalText() ([]byte, error) { return []byte("hidden"), nil }
