package vmtype

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"vmop/authoring/reference"
	"vmop/internal/cli"
	"vmop/internal/spelling"
	"vmop/vmtypes"
)

func newExplain(f Flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain TYPE|TYPE.OPTION|vm|vm.FIELD",
		Short: "Explain an option of a VM type, or a field of the vm section",
		Long: "Explain the fields of a configuration: the options of a VM type\n" +
			"(vm.options), or the fields of the vm section, which are the same for all types.",
		Example: "  vmrunner vmtype explain standard\n  vmrunner vmtype explain standard.watchdog\n  " +
			"vmrunner vmtype explain vm.network.mac",
		Args:              oneArgument("what to explain: TYPE, TYPE.OPTION, vm or vm.FIELD"),
		ValidArgsFunction: completeExplain(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			paint := cli.PaintFor(out)
			what := args[0]
			text, err := "", error(nil)
			if what == "vm" || strings.HasPrefix(what, "vm.") && !strings.HasPrefix(what, "vm.options.") {
				text, err = explainField(paint, what)
			} else {
				text, err = explainOption(cmd, f, paint, what)
			}
			if err != nil {
				return err
			}
			_, err = io.WriteString(out, text)
			return err
		},
	}
	return cmd
}

// splitOption splits "asset.tag" and "./asset.star.tag" into type and option.
func splitOption(what string) (vmType, option string) {
	if i := strings.Index(what, ".star"); i >= 0 {
		return what[:i+len(".star")], strings.TrimPrefix(what[i+len(".star"):], ".")
	}
	slash := strings.LastIndex(what, "/") + 1
	name, option, _ := strings.Cut(what[slash:], ".")
	return what[:slash] + name, option
}

func explainOption(cmd *cobra.Command, f Flags, p cli.Paint, what string) (string, error) {
	vmType, name := splitOption(what)
	if vmType == "vm" {
		return "", cli.UsageError{Err: fmt.Errorf("%s: an option belongs to a VM type; write TYPE.%s, such as "+
			"standard.%[2]s", what, strings.TrimPrefix(name, "options."))}
	}
	d, err := describeType(cmd.Context(), *f.Folder, vmType)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if name == "" {
		if len(d.Options) == 0 {
			return fmt.Sprintf("The VM type %s has no options.\n", d.Name), nil
		}
		writeOptions(&b, p, d.Options)
		return b.String(), nil
	}
	all := withInside(d.Options)
	i := slices.IndexFunc(all,
		func(o vmtypes.Option) bool { return withoutItemMarkers(o.Name) == withoutItemMarkers(name) })
	if i < 0 {
		return "", cli.UsageError{Err: fmt.Errorf("the VM type %s has no option %s%s", d.Name, name,
			suggestName(name, optionNames(all), "it takes none"))}
	}
	o := all[i]
	writeOptions(&b, p, all[i:i+1])
	fmt.Fprintf(&b, "\nDeclared at %s. In the configuration:\n\n    vmType: %s\n    vm:\n      options:\n        "+
		"%s: %s\n",
		d.locationOf(o.File, o.Line), d.Name, topOf(o.Name), exampleOf(d.Options, o))
	return b.String(), nil
}

// withInside returns options together with all options inside them.
func withInside(options []vmtypes.Option) []vmtypes.Option {
	var all []vmtypes.Option
	for i := range options {
		all = append(all, options[i])
		all = append(all, options[i].Inside()...)
	}
	return all
}

func optionNames(options []vmtypes.Option) []string {
	var list []string
	for _, o := range options {
		list = append(list, o.Name)
	}
	return list
}

// withoutItemMarkers removes the markers of list items and dict values from a path.
func withoutItemMarkers(path string) string {
	return strings.NewReplacer("[]", "", ".*", "").Replace(path)
}

func topOf(path string) string {
	return path[:len(path)-len(strings.TrimLeft(path,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"))]
}

// exampleOf returns an example value of an option, or of the option that contains it.
func exampleOf(options []vmtypes.Option, o vmtypes.Option) string {
	for i := range options {
		if options[i].Name == topOf(o.Name) {
			return options[i].Example()
		}
	}
	return o.Example()
}

// suggestName returns the end of an error message about an unknown name.
func suggestName(name string, known []string, none string) string {
	if near := spelling.Nearest(name, known); near != "" {
		return " (did you mean " + near + "?)"
	}
	if len(known) == 0 {
		return " (" + none + ")"
	}
	return " (there are " + strings.Join(known, ", ") + ")"
}

// explainField explains a key of the vm section, and lists the keys below it.
func explainField(p cli.Paint, what string) (string, error) {
	keys := reference.VM()
	var b strings.Builder
	if what == "vm" {
		writeKeys(&b, p, reference.Below("vm", keys))
		return b.String(), nil
	}
	i := slices.IndexFunc(keys,
		func(k reference.Key) bool { return withoutItemMarkers(k.Path) == withoutItemMarkers(what) })
	if i < 0 {
		var known []string
		for _, k := range keys {
			known = append(known, k.Path)
		}
		near := spelling.Nearest(what, known)
		if near == "" {
			return "", cli.UsageError{Err: fmt.Errorf("the vm section has no %s (\"vmrunner vmtype explain vm\" "+
				"lists what it has)", what)}
		}
		return "", cli.UsageError{Err: fmt.Errorf("the vm section has no %s (did you mean %s?)", what, near)}
	}
	k := keys[i]
	writeKeys(&b, p, keys[i:i+1])
	below := append(reference.Below(k.Path, keys), reference.Below(k.Path+"[]", keys)...)
	if len(below) > 0 {
		b.WriteString("\n")
		writeKeys(&b, p, below)
	}
	return b.String(), nil
}

func writeKeys(b *strings.Builder, p cli.Paint, keys []reference.Key) {
	for _, k := range keys {
		b.WriteString("  " + p.Bold(k.Path))
		if k.Default != "" {
			b.WriteString(" = " + k.Default)
		}
		words := []string{spelledType(k.Type)}
		if len(k.Choices) > 0 {
			words = append(words, "one of "+strings.Join(k.Choices, ", "))
		}
		if k.Unit != "" {
			words = append(words, k.Unit)
		}
		if k.Note != "" {
			words = append(words, "default: "+k.Note)
		}
		b.WriteString("  " + p.Faint(strings.Join(words, ", ")) + "\n")
		writeIndented(b, "      ", plainText(k.Doc))
	}
}

// spelledType returns the type of a field in the terms for options.
func spelledType(t string) string {
	t = strings.TrimSuffix(t, " | None")
	if of, ok := strings.CutPrefix(t, "tuple["); ok {
		return "list of " + strings.TrimSuffix(of, ", ...]")
	}
	if t == "str" {
		return "string"
	}
	return t
}

// plainText replaces the links in Markdown with the names of the documents.
func plainText(text string) string {
	for {
		open := strings.Index(text, "](")
		if open < 0 {
			return text
		}
		start := strings.LastIndex(text[:open], "[")
		end := strings.Index(text[open:], ")")
		if start < 0 || end < 0 {
			return text
		}
		document := path.Join("docs/reference", text[open+2:open+end])
		text = text[:start] + text[start+1:open] + " (" + document + ")" + text[open+end+1:]
	}
}

// completeExplain completes types, their options, and fields of the vm section.
func completeExplain(f Flags) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		words := []string{"vm"}
		for _, k := range reference.VM() {
			words = append(words, withoutItemMarkers(k.Path))
		}
		if vmType, _, dot := strings.Cut(word, "."); dot && vmType != "vm" {
			if d, err := describeType(cmd.Context(), *f.Folder, vmType); err == nil {
				for _, o := range withInside(d.Options) {
					words = append(words, vmType+"."+withoutItemMarkers(o.Name))
				}
			}
		}
		list, _ := typesIn(*f.Folder) // without the folder, there are no types to add
		for _, t := range list {
			words = append(words, t.Name)
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}
