package adopt_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/adopt"
)

// words returns the options of a command line, one per line.
func words(t *testing.T, text string) string {
	t.Helper()
	c, err := adopt.Parse([]byte(text))
	require.NoError(t, err)
	var lines []string
	for i := range c.Wanted {
		lines = append(lines, c.Wanted[i].Text())
	}
	return strings.Join(lines, "\n")
}

// Each notation of a shell gives the words that the shell itself would give.
func TestShells(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"continued":   {"qemu-system-x86_64 -m 2G \\\n  -smp 2", "-m 2G\n-smp 2"},
		"windows":     {"qemu-system-x86_64 -m 2G \\\r\n  -smp 2\r\n", "-m 2G\n-smp 2"},
		"disabled":    {"qemu-system-x86_64 -m 2G \\\n# -usb \\\n  -smp 2", "-m 2G\n-smp 2"},
		"comment":     {"# one\nqemu-system-x86_64 -m 2G # two\necho done", "-m 2G"},
		"quotes":      {`qemu-system-x86_64 -append 'a "b" c' -name "x\"y$"`, `-append a "b" c` + "\n" + `-name x"y$`},
		"joined":      {`qemu-system-x86_64 -device edu,id='a'"b"c`, "-device edu,id=abc"},
		"variable":    {"R=4G; X=$R\nqemu-system-x86_64 -m ${X} -smp ${N:-3}", "-m 4G\n-smp 3"},
		"appended":    {"A='-m 1G'\nA+=' -smp 2'\nqemu-system-x86_64 $A", "-m 1G\n-smp 2"},
		"array":       {"a=(-m 1G)\na+=(-append 'x y')\nsudo qemu-system-x86_64 \"${a[@]}\"", "-m 1G\n-append x y"},
		"environment": {"LC_ALL=C QEMU_AUDIO_DRV=none qemu-system-x86_64 -m 1G", "-m 1G"},
		"pipe":        {"qemu-system-x86_64 -m 1G 2>&1 | tee log", "-m 1G\n-hda 2"},
		"bare":        {"-m 1G\\\n -smp 2", "-m 1G\n-smp 2"},
		"prompt":      {"$ qemu-system-x86_64 -m 1G", "-m 1G"},
		"accelerator": {"-accel kvm -m 1G", "-accel kvm\n-m 1G"},
		"json":        {`qemu-system-x86_64 -device '{"driver":"edu","id":"e","x":true}'`, "-device edu,id=e,x=on"},
		"keyed": {
			"qemu-system-x86_64 -device driver=edu,id=e -netdev type=user,id=n",
			"-device edu,id=e\n-netdev user,id=n",
		},
		"two dashes": {"qemu-system-x86_64 --m 1G disk.img", "-m 1G\n-hda disk.img"},
		"alone":      {"qemu-system-x86_64 -enable-kvm disk.img", "-enable-kvm\n-hda disk.img"},
		"lines":      {"/usr/bin/qemu-system-x86_64\n-append\na b 'c\n-m\n1G\n", "-append a b 'c\n-m 1G"},
		"cmdline":    {"/usr/bin/kvm\x00-append\x00a b\x00-m\x001G\x00", "-append a b\n-m 1G"},
		"plan":       {"type x\nqemu /qemu\n    -append a b  # x.star:3 launch\nrule balloon device=b\n", "-append a b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, words(t, test.text))
		})
	}
}

// What only a shell knows is marked, and nothing is executed.
func TestUnknownParts(t *testing.T) {
	t.Parallel()
	c, err := adopt.Parse([]byte("qemu-system-x86_64 -m $(touch /tmp/x) -smp `nproc` -name $N -uuid ${U}"))
	require.NoError(t, err)
	var unknown []string
	for i := range c.Wanted {
		unknown = append(unknown, c.Wanted[i].Unknown)
	}
	require.Equal(t, []string{"$(touch /tmp/x)", "`nproc`", "$N", "${U}"}, unknown)
}

// Errors contain the line and what is wrong.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	for text, message := range map[string]string{
		"":                   "the text is empty",
		"hello":              "there is no command qemu-system-",
		"qemu-system-x86_64": "no options",
		"qemu-system-x86_64 -m 1G\\\n -append 'x": "line 2: the quote ' has no end",
		"a=(-m 1G\nqemu-system-x86_64":            "the list a has no end",
		"qemu-system-x86_64 -m \xff":              "not UTF-8",
		"type x\n    -m 1G\nqemu /x\n":            "line 2: \"-m 1G\" belongs to no process",
		strings.Repeat("x", adopt.LargestText+1):  "more than 1 MiB",
	} {
		_, err := adopt.Parse([]byte(text))
		require.ErrorContains(t, err, message, "%.60q", text)
	}
}

// No text makes the reader fail otherwise than with an error, or grow without limit.
func FuzzParse(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.txt")
	require.NoError(f, err)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(f, err)
		f.Add(text)
	}
	f.Add([]byte("a=(x $a); a+=(${a[@]} \"${a[*]}\")\nqemu-system-x86_64 $a ${a:-$(x `y` (z)} -x"))
	f.Add([]byte("type x\nqemu /q\n    -device a,b=c  # x\nrule cpus\n    in /\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := adopt.Parse(text)
		if err != nil {
			return
		}
		size := 0
		for i := range c.Wanted {
			if c.Wanted[i].Flag == "" || c.Wanted[i].Line < 1 {
				t.Fatalf("%q has an option without a flag or line: %+v", text, c.Wanted[i])
			}
			size += len(c.Wanted[i].Text())
		}
		if size > 32<<20 {
			t.Fatalf("%d bytes became %d", len(text), size)
		}
	})
}
