package vmtype

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"vmop/internal/cli"
	"vmop/vmtypes"
	"vmop/vmtypes/evaluate"
)

// described is a VM type that the user has named.
type described struct {
	vmtypes.Description
	// File is the file that defines the type; "" for a stock type.
	File string `json:"file,omitempty"`
	text string
}

// describeType returns the type with this name or in this file.
func describeType(ctx context.Context, folder, name string) (described, error) {
	if strings.ContainsRune(name, filepath.Separator) || strings.HasSuffix(name, ".star") && !isName(folder, name) {
		path, err := filepath.Abs(name)
		if err != nil {
			return described{}, fmt.Errorf("find %s: %w", name, err)
		}
		return describeFile(ctx, strings.TrimSuffix(path, ".star")+".star")
	}
	folder = typeFolderOf(folder, name)
	t, err := evaluate.Find(folder, name)
	if err != nil {
		return described{}, err
	}
	module, text, err := t.Source.Library().Source(name)
	if err != nil {
		return described{}, err
	}
	d := described{text: text}
	if d.Description, err = t.Describe(ctx); err == nil && !d.Stock {
		d.File = filepath.Join(folder, module)
	}
	return d, err
}

// describeFile returns the type in a file, even if a stock type has the same name.
func describeFile(ctx context.Context, path string) (described, error) {
	if err := requireFile("find the VM type", "file", path); err != nil {
		return described{}, err
	}
	t, err := evaluate.Find("", path)
	if err != nil {
		return described{}, err
	}
	d := described{File: path, text: t.Source.Modules[filepath.Base(path)]}
	d.Description, err = t.Describe(ctx)
	return d, err
}

// typeFolderOf returns the folder that contains a type: the folder of --vmtypes, or the current folder, where authors
// usually work.
func typeFolderOf(installed, name string) string {
	if !isThere(installed, name) && isThere(".", name) {
		return "."
	}
	return installed
}

// isThere reports whether a folder contains the file of a type.
func isThere(folder, name string) bool {
	_, err := os.Stat(filepath.Join(folder, strings.TrimSuffix(name, ".star")+".star"))
	return err == nil
}

// isName reports whether a word that ends in .star names a type of the folder.
func isName(folder, name string) bool {
	list, err := listTypes(folder)
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

// locationOf returns the location of a module of the type for messages.
func (d described) locationOf(file string, line int) string {
	if d.File != "" && !strings.HasPrefix(file, "@") {
		file = filepath.Join(filepath.Dir(d.File), file)
	}
	return fmt.Sprintf("%s:%d", file, line)
}

// writeOptions prints options with their documentation.
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
	switch text := o.DefaultText(); {
	case text != "":
		b.WriteString(" = " + cli.Printable(text))
	case o.DefaultRule != "":
		b.WriteString(" = (" + cli.Printable(o.DefaultRule) + ")")
	}
	b.WriteString("  " + p.Faint(cli.Printable(valuesText(o))) + "\n")
	writeIndented(b, "      ", o.Doc)
}

// valuesText describes the allowed values of an option.
func valuesText(o *vmtypes.Option) string {
	words := []string{o.Spelled()}
	if limits := o.Limits(); limits != "" {
		words = append(words, limits)
	}
	return strings.Join(append(words, o.Notes()...), ", ")
}

// writeIndented writes a text by an author with an indentation, and wraps it.
func writeIndented(b *strings.Builder, indent, text string) {
	if text == "" {
		return
	}
	for _, line := range strings.Split(wrapText(text, 84), "\n") {
		b.WriteString(indent + cli.Printable(line) + "\n")
	}
}
