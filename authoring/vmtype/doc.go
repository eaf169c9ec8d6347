package vmtype

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"vmop/authoring/reference"
	"vmop/internal/cli"
	"vmop/vmtypes"
)

func newDoc(f Flags) *cobra.Command {
	var form string
	cmd := &cobra.Command{
		Use:   "doc [DIR|TYPE]",
		Short: "Document VM types: Markdown, man page, JSON Schema",
		Long: "Print the documentation of a VM type from its docstrings and declarations: what it is\n" +
			"for, its options and its functions. For a folder, by default the current one, it documents\n" +
			"all types in it.\n\n" +
			"-o schema prints a JSON Schema (draft 2020-12) of a configuration file: for one type, or for\n" +
			"all types of a folder and the stock types. An editor with a YAML language server uses it to\n" +
			"complete and check the configuration of a VM (docs/vm-types/editors.md).",
		Example: "  vmrunner vmtype doc standard\n" +
			"  vmrunner vmtype doc -o man . >vmtypes.7 && man -l vmtypes.7\n" +
			"  vmrunner vmtype doc -o schema . >vm.schema.json",
		Args: atMostOne("doc", "a folder or a VM type"),
		RunE: func(cmd *cobra.Command, args []string) error {
			types, folder, err := describedTypes(cmd.Context(), *f.Folder, args)
			if err == nil && form == "schema" && folder {
				types, err = withStock(cmd.Context(), types)
			}
			if err != nil {
				return err
			}
			switch w := cmd.OutOrStdout(); form {
			case "man":
				return cli.WriteLine(w, reference.ManPage(types))
			case "schema":
				return cli.PrintValue(w, "json", reference.ConfigurationSchema(types))
			default:
				return cli.WriteLine(w, reference.TypesPage(types))
			}
		},
		ValidArgsFunction: completeTypes(f),
	}
	cli.OutputFlag(cmd, &form, "markdown", "man", "schema")
	return cmd
}

// describedTypes returns the types in a folder, in a file, or with a name. The default is the current folder.
func describedTypes(
	ctx context.Context, installed string, args []string,
) (types []reference.DescribedType, folder bool, err error) {
	what := "."
	if len(args) > 0 {
		what = args[0]
	}
	if info, err := os.Stat(what); err == nil && info.IsDir() && !vmtypes.IsStock(what) {
		source, err := vmtypes.ReadSource(what)
		if err != nil {
			return nil, true, err
		}
		types, err = reference.DescribeAll(ctx, source, bounded{}.Describe)
		return types, true, err
	}
	dir, name := typeFolderOf(installed, what), what
	if strings.HasSuffix(what, ".star") {
		dir, name = filepath.Dir(what), strings.TrimSuffix(filepath.Base(what), ".star")
	}
	source, err := vmtypes.ReadSource(dir)
	if err != nil {
		return nil, false, err
	}
	d, err := bounded{}.Describe(ctx, source, name)
	return []reference.DescribedType{reference.Described(d)}, false, err
}

// withStock adds the stock types, because a configuration can also use them.
func withStock(ctx context.Context, types []reference.DescribedType) ([]reference.DescribedType, error) {
	library, err := vmtypes.Open("")
	if err != nil {
		return nil, err
	}
	for _, name := range library.Names() {
		d, err := bounded{}.Describe(ctx, vmtypes.Source{}, name)
		if err != nil {
			return nil, err
		}
		types = append(types, reference.Described(d))
	}
	return types, nil
}
