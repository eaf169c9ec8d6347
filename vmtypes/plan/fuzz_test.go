package plan_test

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// FuzzWords checks that QEMU reads exactly the intended options from any valid plan.
func FuzzWords(f *testing.F) {
	f.Add("virtio-blk-pci", "/a,b", "x=y")
	f.Add("x", ",", ",,")
	f.Add("x", "a,id=evil", "")
	f.Add("unix:/a,b=c", "a", "")
	f.Add("unix:/a=b", "a", "")
	f.Add("", "a", ",b=c,")
	f.Fuzz(func(t *testing.T, value, first, second string) {
		o := device(value, "first", first, "second", second)
		if len(machine(o).Check()) > 0 {
			return
		}
		read, pairs := qemuopt.Parse(o.Words(nil)[1])
		require.Equal(t, value, read)
		require.Equal(t, []qemuopt.Pair{{Key: "first", Value: first}, {Key: "second", Value: second}}, pairs)
	})
}

// FuzzShell checks that the shell form of a plan starts the same program with the same arguments and environment as the
// runner.
func FuzzShell(f *testing.F) {
	f.Add("a b", "it's", "$HOME", "tap0")
	f.Add("", "\n", "`id`", "x\necho injected")
	f.Add("~", "#", "\\", "!")
	f.Add("*", "a=b", "'\"'", "\xff")
	shell, err := exec.LookPath("sh")
	require.NoError(f, err)
	printf, err := exec.LookPath("printf")
	require.NoError(f, err)
	env, err := exec.LookPath("env")
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, word, value, variable, name string) {
		p := plan.Plan{Type: "test", QEMU: plan.Process{
			Name: "qemu", Executable: env, Env: []plan.Variable{{Name: "VARIABLE", Value: variable}}, Dir: "/",
			Args: []plan.Option{
				{Flag: "--split-string=" + printf + ` %s\\0 "${VARIABLE}"`},
				{Flag: "-flag", Value: word},
				{Flag: "-list", List: true, Properties: []plan.Property{
					{Key: "key", Value: value},
					{Key: "fd", Descriptor: name},
				}},
			},
		}, Listeners: []plan.Listener{{Name: name, Path: "/run/s"}}}
		if len(p.Check()) > 0 {
			return
		}
		out, err := exec.CommandContext(t.Context(), shell, "-c", p.Shell()).CombinedOutput()
		require.NoError(t, err, "%s\n%s", out, p.Shell())
		want := append([]string{variable}, p.QEMU.Argv()[1:]...)
		require.Equal(t, want, strings.Split(string(bytes.TrimSuffix(out, []byte{0})), "\x00"), "%s", p.Shell())
	})
}
