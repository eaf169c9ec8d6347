package vmtype

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/vmtypes"
)

func newShow(f Flags) *cobra.Command {
	var form string
	var source bool
	cmd := &cobra.Command{
		Use:   "show NAME|FILE",
		Short: "Show the documentation and options of a VM type",
		Long: "Print the documentation of a type, its options in vm.options of the configuration, and\n" +
			"its modules. NAME is a stock type, or a type in the folder --vmtypes or the current folder;\n" +
			"FILE is a module anywhere.",
		Example: "  vmrunner vmtype show standard\n  vmrunner vmtype show ./asset.star\n  vmrunner vmtype " +
			"show standard --source > mine.star",
		Args:              oneArgument("the name of a VM type, or a file"),
		ValidArgsFunction: completeTypes(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := describeType(cmd.Context(), *f.Folder, args[0])
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			switch {
			case source:
				return cli.WriteLine(out, d.text)
			case form != "text":
				return cli.PrintValue(out, form, d)
			}
			_, err = io.WriteString(out, showPage(cli.PaintFor(out), d))
			return err
		},
	}
	cli.OutputFlag(cmd, &form, "text", "json", "yaml")
	cmd.Flags().BoolVar(&source, "source", false, "print the source of the module that defines the type")
	return cmd
}

// showPage returns the result for people.
func showPage(p cli.Paint, d described) string {
	var b strings.Builder
	doc := strings.TrimSpace(strings.TrimPrefix(d.Doc, d.Name+":"))
	if doc == "" {
		doc = "(no docstring)"
	}
	b.WriteString(p.Bold(d.Name) + ": ")
	for _, line := range strings.Split(doc, "\n") {
		b.WriteString(cli.Printable(line) + "\n")
	}
	b.WriteString("\n" + p.Bold("Options") + " (vm.options in the configuration):\n")
	writeOptions(&b, p, d.Options)
	if len(d.Options) == 0 {
		b.WriteString("  none\n")
	}
	b.WriteString("\n" + p.Bold("Modules") + ":\n")
	writeModules(&b, d.Modules)
	where := "part of vmrunner; see --source"
	if d.File != "" {
		where = d.File
	}
	fmt.Fprintf(&b, "\n%s: %s\n%s: %d\n", p.Bold("Source"), cli.Printable(where), p.Bold("API version"), d.APIVersion)
	return b.String()
}

// writeModules lists the modules of a type. Library modules are listed by name only, because they are documented on a
// separate page.
func writeModules(b *strings.Builder, modules []vmtypes.Module) {
	var library []string
	width := 0
	for _, m := range modules {
		if name, ok := strings.CutPrefix(m.Name, "@vmtypes//lib/"); ok {
			library = append(library, strings.TrimSuffix(name, ".star"))
			continue
		}
		width = max(width, len(m.Name))
	}
	for _, m := range modules {
		if !strings.HasPrefix(m.Name, "@vmtypes//lib/") {
			fmt.Fprintf(b, "  %-*s  %s\n", width, cli.Printable(m.Name),
				cli.Printable(firstSentence(strings.TrimSuffix(path.Base(m.Name), ".star"), m.Doc)))
		}
	}
	if len(library) > 0 {
		slices.Sort(library)
		b.WriteString("  @vmtypes//lib/\n")
		writeIndented(b, "      ", strings.Join(library, ", "))
	}
}
