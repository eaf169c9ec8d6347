//go:build man

package cli

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// addMan adds the verb that writes man pages, one per verb, or one document with the help of all verbs. Only "make
// man" and "make docs" build the programs with it; installed programs lack this verb and its libraries.
func addMan(root *cobra.Command) {
	cmd := &cobra.Command{Use: "man DIR|FILE.md", Short: "Write man pages", Hidden: true, Args: Arguments(1, 1)}
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if name, is := strings.CutSuffix(filepath.Base(args[0]), ".md"); is {
			return os.WriteFile(args[0], []byte("# "+name+"\n"+help(root)), 0o644)
		}
		root.DisableAutoGenTag = true // the same pages every day
		return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "vmop " + root.Version}, args[0])
	}
	root.AddCommand(cmd)
}

// help returns the help of a verb and its subcommands, each with a heading.
func help(cmd *cobra.Command) string {
	usage, _, _ := strings.Cut(cmd.UsageString(), "\nGlobal Flags:") // those belong to the first command
	about := strings.TrimSpace(cmp.Or(cmd.Long, cmd.Short) + "\n\n" + usage)
	all := "\n    " + strings.ReplaceAll(about, "\n", "\n    ") + "\n"
	for _, verb := range cmd.Commands() {
		if verb.IsAvailableCommand() && verb.Name() != "completion" {
			all += fmt.Sprintf("\n## %s\n%s", verb.CommandPath(), help(verb))
		}
	}
	return all
}
