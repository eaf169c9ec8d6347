package plan

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A credential that everybody on the host could see is rejected, and the error does not repeat it.
func TestCredentialsAreNotOnTheCommandLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"-blockdev driver=https,node-name=a,url=https://b/c,cookie=canary":      "use cookie-secret,",
		"-blockdev driver=raw,node-name=a,file.driver=https,file.cookie=canary": "use file.cookie-secret,",
		"-drive if=none,id=a,file.driver=iscsi,file.password=canary":            "use file.password-secret,",
		"-spice port=1,password=canary":                                         "use password-secret,",
		"-spice port=1,x509-key-password=canary":                                "use x509-key-file",
		"-iscsi user=a,password=canary":                                         "use password-secret,",
		"-object secret,id=a,data=canary":                                       "use file, or encrypt it",
		`-object {"qom-type":"secret","id":"a","data":"canary"}`:                "use file, or encrypt it",
		"-drive if=none,id=a,file=https://b:canary@c/d":                         "use url without it, username and",
		"-blockdev driver=https,node-name=a,url=https://b:canary@c":             "use url without it, username and",
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
		{Flag: "-iscsi", Value: "user=a,password-secret=s"},
		{Flag: "-object", Value: "secret,id=s,file=/s"},
		{Flag: "-object", Value: "secret,id=t,keyid=s,iv=AA==,data=AA=="},
		{Flag: "-drive", Value: "if=none,id=b,file=/dev/disk/a:b@c"},
		{Flag: "-drive", Value: "if=none,id=c,file=https://b@c/d:e@f"},
		{Flag: "-blockdev", Value: "driver=https,node-name=a,url=https://b/c,username=d,read-only=on"},
	}}}
	require.Empty(t, p.Check())
}
