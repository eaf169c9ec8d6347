package vmtypestest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/txtar"

	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

const goldenSuffix = ".txtar"

// The sections of a golden.
const (
	vmSection   = "vm.yaml"
	hostSection = "host.json"
	typeSection = "type"
	planSection = "plan.txt"
)

// A Golden is a machine whose plan is kept.
type Golden struct {
	// Path of the archive.
	Path string
	// Type is the name of the VM type.
	Type string
	// VM is the vm section with its defaults.
	VM vmspec.Spec
	// Host is where it runs.
	Host HostFacts
	// Text is the plan that is kept; empty if there is none yet.
	Text string

	archive *txtar.Archive
}

// Goldens returns the paths of the goldens in a folder, sorted.
func Goldens(dir string) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*"+goldenSuffix))
	if err == nil && len(paths) == 0 {
		err = fmt.Errorf("look for goldens: there is no file *%s in %s", goldenSuffix, dir)
	}
	return paths, err
}

// ReadGolden reads an archive. It must have a comment: what nobody can say
// about a machine is no reason to keep its plan.
func ReadGolden(path string) (*Golden, error) {
	archive, err := txtar.ParseFile(path)
	if err != nil {
		return nil, fmt.Errorf("read golden: %w", err)
	}
	g := &Golden{Path: path, Type: "standard", archive: archive}
	if strings.TrimSpace(string(archive.Comment)) == "" {
		return nil, fmt.Errorf("read golden %s: it has no comment that says what is special about it", path)
	}
	vm := []byte{}
	for _, f := range archive.Files {
		switch f.Name {
		case vmSection:
			vm = f.Data
		case hostSection:
			g.Host, err = ParseHost(f.Data)
		case typeSection:
			g.Type = strings.TrimSpace(string(f.Data))
		case planSection:
			g.Text = string(f.Data)
		default:
			err = fmt.Errorf("the section %s is unknown", f.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("read golden %s: %w", path, err)
		}
	}
	if g.VM, err = ParseVM(vm); err != nil {
		return nil, fmt.Errorf("read golden %s: %w", path, err)
	}
	return g, nil
}

// Plan returns the plan as the library's VM type makes it now.
func (g *Golden) Plan(ctx context.Context, library *vmtypes.Library) (*plan.Plan, error) {
	t, err := library.Load(ctx, g.Type)
	if err != nil {
		return nil, err
	}
	return t.Launch(ctx, g.VM, g.Host.Host())
}

// Write keeps a plan in the archive.
func (g *Golden) Write(text string) error {
	files := g.archive.Files
	if n := len(files); n == 0 || files[n-1].Name != planSection {
		files = append(files, txtar.File{Name: planSection})
	}
	files[len(files)-1].Data = []byte(text)
	g.archive.Files, g.Text = files, text
	if err := os.WriteFile(g.Path, txtar.Format(g.archive), 0o644); err != nil {
		return fmt.Errorf("write golden: %w", err)
	}
	return nil
}

// difference returns the lines that are only in one of two texts: those of the
// first behind a minus, those of the second behind a plus.
func difference(before, after string) string {
	lines := func(text string) map[string]bool {
		set := map[string]bool{}
		for line := range strings.Lines(text) {
			set[line] = true
		}
		return set
	}
	old, now := lines(before), lines(after)
	var b strings.Builder
	for line := range strings.Lines(before) {
		if !now[line] {
			b.WriteString("- " + line)
		}
	}
	for line := range strings.Lines(after) {
		if !old[line] {
			b.WriteString("+ " + line)
		}
	}
	if b.Len() == 0 {
		return "the same lines in another order\n"
	}
	return b.String()
}
