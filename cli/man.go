//go:build man

package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// addMan adds the verb that writes man pages, one for each verb. "make man" builds the
// programs with it; installed programs need neither it nor the libraries behind it.
func addMan(root *cobra.Command) {
	root.AddCommand(&cobra.Command{
		Use: "man DIR", Short: "Write man pages", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			root.DisableAutoGenTag = true // the same pages every day
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "vmop " + root.Version}, args[0])
		},
	})
}
