package vmtype

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"vmop/authoring/reference"
	"vmop/internal/cli"
	"vmop/vmtypes"
)

func newListCommand(f Flags) *cobra.Command {
	var form string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the VM types that a configuration can name",
		Long: "List the stock types, which are part of the program, the custom types in the folder\n" +
			"--vmtypes, and those in the current folder, where other verbs find them as well. To run a VM\n" +
			"with a type of the current folder, use --vmtypes. The description is the first sentence of\n" +
			"the docstring. Nothing is evaluated.",
		Example:           "  vmrunner vmtype list\n  vmrunner vmtype list --vmtypes . -o json",
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := typesIn(*f.Folder)
			if err != nil {
				return err
			}
			if form != "text" {
				return cli.PrintValue(cmd.OutOrStdout(), form, list)
			}
			rows := [][]string{{"NAME", "FROM", "WHAT IT IS"}}
			for _, t := range list {
				about := t.Doc
				if t.Fault != "" {
					about = t.Fault
				}
				rows = append(rows, []string{t.Name, t.From, about})
			}
			return cli.Table(cmd.OutOrStdout(), rows)
		},
	}
	cli.OutputFlag(cmd, &form, "text", "json", "yaml")
	return cmd
}

// listedType is one entry of the list.
type listedType struct {
	Name string `json:"name"`
	// From is "stock" or the folder.
	From string `json:"from"`
	Doc  string `json:"doc"`
	// Fault is the error if the file cannot be read.
	Fault string `json:"fault,omitempty"`
}

// typesIn returns the types of a folder, and additional types in the current folder.
func typesIn(folder string) ([]listedType, error) {
	list, err := listTypes(folder)
	if err != nil {
		return nil, err
	}
	here, _ := listTypes(".") // the current folder may contain no types
	for _, t := range here {
		if !slices.ContainsFunc(list, func(known listedType) bool { return known.Name == t.Name }) {
			list = append(list, t)
		}
	}
	return list, nil
}

// listTypes returns the stock types and the types of a folder. It omits modules without launch, which are libraries.
func listTypes(folder string) ([]listedType, error) {
	library, err := vmtypes.Open(folder)
	if err != nil {
		return nil, err
	}
	defer func() { _ = library.Close() }() // it was only read
	list := []listedType{}
	for _, name := range library.Names() {
		from := folder
		if vmtypes.IsStock(name) {
			from = "stock"
		}
		module, text, err := library.Source(name)
		if err != nil {
			list = append(list, listedType{Name: name, From: from, Fault: err.Error()})
			continue
		}
		m := vmtypes.DescribeModule(module, text)
		if m.Doc == "" || definesGlobal(m, "launch") {
			list = append(list, listedType{Name: name, From: from, Doc: firstSentence(name, m.Doc)})
		}
	}
	return list, nil
}

// definesGlobal reports whether a module defines a global name.
func definesGlobal(m vmtypes.Module, name string) bool {
	return slices.ContainsFunc(m.Functions, func(f vmtypes.Function) bool { return f.Name == name }) ||
		slices.ContainsFunc(m.Values, func(v vmtypes.Value) bool { return v.Name == name })
}

// firstSentence returns the first sentence of a docstring, without the name at the beginning of many docstrings:
// "asset: the PC with a tag."
func firstSentence(name, doc string) string {
	return reference.Summary(strings.TrimSpace(strings.TrimPrefix(doc, name+":")))
}
