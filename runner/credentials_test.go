package runner_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/wait"
)

// The password in a CD's address reaches QEMU, but does not appear on its command line, in the log, the status or a
// file while the guest runs, both at the start and after a change of the medium. A program replaces QEMU and reads a
// file, because QEMU's HTTP driver is in a separate package.
func TestThePasswordOfACDIsNotSeen(t *testing.T) {
	t.Parallel()
	const password = "canary-3f"
	v := newVM(t, "wrapped")
	require.NoError(t, os.Mkdir(v.path("bin"), 0o700)) // which the program that replaces QEMU may use
	require.NoError(t, os.WriteFile(v.path("bin", "a.iso"), make([]byte, 64<<10), 0o600))
	medium := "id=cd0-medium,if=none,media=cdrom,readonly=on,format=raw"
	program := v.exchanging(medium, medium+",file.driver=file,file.filename="+v.path("bin", "a.iso"))
	text := v.read("bin", "qemu")
	v.program(strings.Replace(text, "for word; do", `printf '%s\n' "$@" >`+v.path("bin", "words")+`
cat `+v.path("run")+`/password-of-drive0 >`+v.path("bin", "secret")+`
for word; do`, 1))
	address := func(host string) string {
		return "drives: [{type: ide-cd, file: 'https://me:" + password + "@" + host + ".invalid/a.iso'}]"
	}
	section := func(drives string) []string {
		return []string{"accelerator: tcg", "firmware: bios", "network: []", "powerdownTimeout: 0", program, drives}
	}
	v.configure("wrapped", nil, section(address("a"))...)
	v.runs()
	words := v.read("bin", "words")
	require.Contains(t, words, "file.url=https://a.invalid/a.iso,file.username=me,file.password-secret=")
	require.NotContains(t, words, password)
	require.Equal(t, password, v.read("bin", "secret"), "what QEMU reads at its start")
	left, err := filepath.Glob(v.path("run", "password*"))
	require.NoError(t, err)
	require.Empty(t, left)

	v.configure("wrapped", nil, section(address("b"))...)
	wait.Until(t, func() bool {
		told, err := json.Marshal(v.status())
		require.NoError(t, err)
		require.NotContains(t, string(told), password)
		return strings.Contains(string(told), "change the medium to https://b.invalid/a.iso")
	})
	require.Contains(t, v.log.text(), "object-add")
	require.NotContains(t, v.log.text(), password)
	v.ends()
}
