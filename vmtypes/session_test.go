package vmtypes_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmtypes"
)

func newSession(t *testing.T) *vmtypes.Session {
	t.Helper()
	source := vmtypes.Source{Modules: map[string]string{"my.star": "def f(): return struct(alpha = 1, beta = 2)\n"}}
	s, err := source.Library().Session(t.Context(), "my", smallVM(), emptyHost())
	require.NoError(t, err)
	return s
}

func TestSessionCompletes(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	_, err := s.Run(t.Context(), "load(\"my.star\", \"f\")\n")
	require.NoError(t, err)
	_, err = s.Run(t.Context(), "mine = f()\n")
	require.NoError(t, err)
	for line, want := range map[string][]string{
		"mi":                         {"min", "mine"},
		"x = mine.":                  {"x = mine.alpha", "x = mine.beta"},
		"vm.maximumR":                {"vm.maximumRam"},
		"[vm.serialConsole.l":        nil,
		"host.fi":                    {"host.find", "host.firmware"},
		"f(mine.a":                   {"f(mine.alpha"},
		"nothing.a":                  nil,
		"f().a":                      nil,
		`load("@vmtypes//lib/tp`:     {`load("@vmtypes//lib/tpm.star`},
		`load("m`:                    {`load("my.star`},
		"replac":                     {"replace"},
		"hotplug.mem":                {"hotplug.memory"},
		"vm.nothing.at.all":          nil,
		`load("@vmtypes//standard.s`: {`load("@vmtypes//standard.star`},
	} {
		require.Equal(t, want, s.Complete(line), line)
	}
	require.Contains(t, s.Complete(""), "vm")
}

// The printed text is limited, and a failed input reports its place.
func TestSessionIsBounded(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	out, err := s.Run(t.Context(), "print('x' * 1000000)\n")
	require.NoError(t, err)
	require.Less(t, len(out), 70_000)
	out, err = s.Run(t.Context(), "for i in range(1 << 60): print('x' * 1000)\n")
	require.ErrorContains(t, err, "took too many steps")
	require.Less(t, len(out), 70_000)
	_, err = s.Run(t.Context(), "list(range(1 << 62))\n")
	require.ErrorContains(t, err, "the interpreter panicked")
	out, err = s.Run(t.Context(), "1\n")
	require.NoError(t, err)
	require.Equal(t, "1\n", out)
}

func TestReadStatement(t *testing.T) {
	t.Parallel()
	lines := strings.Split("x = 1\ndef f():\n    return 1\n\nf(\n1,\n)\n\"\"\"a\nb\"\"\"\nx ===\nlast", "\n")
	next := func() (string, error) {
		if len(lines) == 0 {
			return "", io.EOF
		}
		line := lines[0]
		lines = lines[1:]
		return line, nil
	}
	for _, want := range []string{"x = 1\n", "def f():\n    return 1\n\n", "f(\n1,\n)\n", "\"\"\"a\nb\"\"\"\n"} {
		text, err := vmtypes.ReadStatement(next)
		require.NoError(t, err)
		require.Equal(t, want, text)
	}
	_, err := vmtypes.ReadStatement(next)
	require.ErrorContains(t, err, "input:1:5: got '=', want primary expression")
	text, err := vmtypes.ReadStatement(next)
	require.NoError(t, err)
	require.Equal(t, "last\n", text)
	_, err = vmtypes.ReadStatement(next)
	require.ErrorIs(t, err, io.EOF)
	lines = []string{"def f():", "    return 1"}
	text, err = vmtypes.ReadStatement(next)
	require.NoError(t, err, "the end of the file is the end of a def")
	require.Equal(t, "def f():\n    return 1\n", text)
	broken := errors.New("broken")
	_, err = vmtypes.ReadStatement(func() (string, error) { return "", broken })
	require.ErrorIs(t, err, broken)
}
