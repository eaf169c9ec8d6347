package vmtype

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"vmop/cmd/vmrunner/cli"
	"vmop/vmtypes"
)

// described is a VM type that a user has named.
type described struct {
	vmtypes.Description
	// File is where the module is that defines it; "" for a stock type.
	File string `json:"file,omitempty"`
	text string
}

// describe returns the type that a user means: a name, or a file.
func describe(ctx context.Context, folder, name string) (described, error) {
	if strings.ContainsRune(name, filepath.Separator) || strings.HasSuffix(name, ".star") && !isName(folder, name) {
		path, err := filepath.Abs(name)
		if err != nil {
			return described{}, fmt.Errorf("find %s: %w", name, err)
		}
		folder, name = filepath.Dir(path), filepath.Base(path)
	} else if !isThere(folder, name) && isThere(".", name) {
		folder = "." // where its author is
	}
	library, err := vmtypes.Open(folder)
	if err != nil {
		return described{}, err
	}
	defer func() { _ = library.Close() }() // it was only read
	module, text, err := library.Source(name)
	if err != nil {
		return described{}, err
	}
	vmType, err := library.Load(ctx, name)
	if err != nil {
		return described{}, err
	}
	d := described{Description: vmType.Describe(), text: text}
	if !d.Stock {
		d.File = filepath.Join(folder, module)
	}
	return d, nil
}

// isThere tells whether a folder has the file of a type.
func isThere(folder, name string) bool {
	_, err := os.Stat(filepath.Join(folder, strings.TrimSuffix(name, ".star")+".star"))
	return err == nil
}

// isName tells whether a word ending in .star names a type of the folder.
func isName(folder, name string) bool {
	list, err := listed(folder)
	if err != nil {
		return false
	}
	for _, t := range list {
		if t.Name+".star" == name {
			return true
		}
	}
	return false
}

// place returns where a module of the type is, for people.
func (d described) place(file string, line int) string {
	if d.File != "" && !strings.HasPrefix(file, "@") {
		file = filepath.Join(filepath.Dir(d.File), file)
	}
	return fmt.Sprintf("%s:%d", file, line)
}

// writeOptions writes options as people read them, each with its text.
func writeOptions(b *strings.Builder, p cli.Paint, options []vmtypes.Option) {
	for i := range options {
		writeOption(b, p, &options[i])
		for _, inside := range options[i].Inside() {
			writeOption(b, p, &inside)
		}
	}
}

func writeOption(b *strings.Builder, p cli.Paint, o *vmtypes.Option) {
	b.WriteString("  " + p.Bold(o.Name))
	if text := o.DefaultText(); text != "" {
		b.WriteString(" = " + cli.Printable(text))
	}
	b.WriteString("  " + p.Faint(cli.Printable(nature(o))) + "\n")
	writeIndented(b, "      ", o.Doc)
}

// nature says what an option can be, in a few words.
func nature(o *vmtypes.Option) string {
	words := []string{o.Spelled()}
	if limits := o.Limits(); limits != "" {
		words = append(words, limits)
	}
	if o.Mandatory {
		words = append(words, "mandatory")
	}
	return strings.Join(words, ", ")
}

// writeIndented writes a text of an author, wrapped where it is prose.
func writeIndented(b *strings.Builder, indent, text string) {
	if text == "" {
		return
	}
	for _, line := range strings.Split(wrap(text, 84), "\n") {
		b.WriteString(indent + cli.Printable(line) + "\n")
	}
}
