package pages_test

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"vmop/test/pages"
)

const page = "# A page\n\nType `vm stop NAME… [--force]`, or `vm stop`:\n\n" +
	"    bin/vm stop web --wait && vm ps   # both\n\n" +
	"1. And:\n\n       kubectl exec -it web-0 -- vm stop \"$X y\"\n\n" +
	"<!-- file: a.yaml -->\n```yaml\na: 1\n```\n\n```console\n$ vm ps \\\n> -x\nvm stop\n$ vm\n```\n"

func TestReading(t *testing.T) {
	t.Parallel()
	read := pages.Read("a.md", []byte(page))
	require.Len(t, read.Blocks, 4)
	require.Equal(t, pages.Block{
		Name: "a.yaml", Language: "yaml", Text: "a: 1\n", Line: 13,
		Start: strings.Index(page, "a: 1"), End: strings.Index(page, "a: 1") + 5,
	}, read.Blocks[2])
	require.Equal(t, []pages.Call{{"$ vm ps \\\n> -x\n", "vm stop\n"}, {"$ vm\n", ""}}, read.Blocks[3].Calls())
	commands, err := read.Commands("vm")
	require.NoError(t, err)
	require.Equal(t, []pages.Command{
		{At: "a.md:5", Words: []string{"vm", "stop", "web", "--wait"}},
		{At: "a.md:5", Words: []string{"vm", "ps"}},
		{At: "a.md:9", Words: []string{"kubectl", "exec", "-it", "web-0", "--", "vm", "stop", "$X y"}},
		{At: "a.md:9", Words: []string{"vm", "stop", "$X y"}},
		{At: "a.md:17", Words: []string{"vm", "ps", "-x"}},
		{At: "a.md:17", Words: []string{"vm"}},
		{At: "a.md:3", Words: []string{"vm", "stop", "NAME", "--force"}, Mention: true},
		{At: "a.md:3", Words: []string{"vm", "stop"}, Mention: true},
	}, commands)
	_, err = pages.Read("a.md", []byte("a\n\n    echo 'a\n")).Commands()
	require.ErrorContains(t, err, "a.md:3: no shell reads this")
}

// Calls that a program would refuse are errors, and no command is executed.
func TestChecking(t *testing.T) {
	t.Parallel()
	root := func() *cobra.Command {
		root := &cobra.Command{Use: "vm"}
		never := func(*cobra.Command, []string) error { panic("executed") }
		stop := &cobra.Command{Use: "stop", Args: cobra.ExactArgs(1), RunE: never}
		stop.Flags().Int("time", 0, "")
		root.AddCommand(stop)
		return root
	}
	for call, want := range map[string]string{
		"vm stop web --time 5": "", "vm stop web --help": "", "vm completion bash": "",
		"vm stopp": "unknown command", "vm stop": "accepts 1 arg", "vm stop a b": "accepts 1 arg",
		"vm stop web --tyme 5": "unknown flag", "vm stop web --time x": "invalid argument",
	} {
		count, err := pages.Check([]pages.Page{pages.Read("a.md", []byte("    "+call+"\n"))}, "vm", root)
		require.Equal(t, 1, count)
		if want == "" {
			require.NoError(t, err, call)
			continue
		}
		require.ErrorContains(t, err, want, call)
		require.ErrorContains(t, err, "a.md:1: "+call)
	}
	_, err := pages.Check([]pages.Page{pages.Read("a.md", []byte("Here `vm stop` is named.\n"))}, "vm", root)
	require.NoError(t, err)
}
