package plan

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A credential that everybody on the host would see is refused, and not repeated.
func TestCredentialsAreNotOnTheCommandLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"-blockdev driver=https,node-name=a,url=https://b/c,cookie=canary":      "use cookie-secret,",
		"-blockdev driver=raw,node-name=a,file.driver=https,file.cookie=canary": "use file.cookie-secret,",
		"-drive if=none,id=a,file.driver=iscsi,file.password=canary":            "use file.password-secret,",
		"-spice port=1,password=canary":                                         "use password-secret,",
	} {
		flag, value, _ := strings.Cut(text, " ")
		p := &Plan{QEMU: Process{Name: "qemu", Executable: "/bin/true", Args: []Option{{Flag: flag, Value: value}}}}
		var found []string
		for _, f := range p.Check() {
			require.NotContains(t, f.Message, "canary")
			found = append(found, f.Message)
		}
		require.Contains(t, strings.Join(found, "\n"), want, text)
	}
	p := &Plan{QEMU: Process{Name: "qemu", Executable: "/bin/true", Args: []Option{
		{Flag: "-vnc", Value: "none,password=on"},
		{Flag: "-blockdev", Value: "driver=https,node-name=a,url=https://b/c,username=d,read-only=on"},
	}}}
	require.Empty(t, p.Check())
}
