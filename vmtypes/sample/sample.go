package sample

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

// Suffix is what the names of goldens end in.
const Suffix = ".txtar"

// The sections of a golden.
const (
	vmSection   = "vm.yaml"
	hostSection = "host.json"
	typeSection = "type"
	planSection = "plan.txt"
)

// A Sample is a VM that a VM type is tried with.
type Sample struct {
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

// Find returns the paths of the goldens in a folder, sorted.
func Find(dir string) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*"+Suffix))
	if err == nil && len(paths) == 0 {
		err = fmt.Errorf("look for goldens: there is no file *%s in %s", Suffix, dir)
	}
	return paths, err
}

// Read reads an archive. It must have a comment: what nobody can say
// about a machine is no reason to keep its plan.
func Read(path string) (*Sample, error) {
	archive, err := txtar.ParseFile(path)
	if err != nil {
		return nil, fmt.Errorf("read golden: %w", err)
	}
	s := &Sample{Path: path, Type: "standard", archive: archive}
	if strings.TrimSpace(string(archive.Comment)) == "" {
		return nil, fmt.Errorf("read golden %s: it has no comment that says what is special about it", path)
	}
	vm := []byte{}
	for _, f := range archive.Files {
		switch f.Name {
		case vmSection:
			vm = f.Data
		case hostSection:
			s.Host, err = ParseHost(f.Data)
		case typeSection:
			s.Type = strings.TrimSpace(string(f.Data))
		case planSection:
			s.Text = string(f.Data)
		default:
			err = fmt.Errorf("the section %s is unknown", f.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("read golden %s: %w", path, err)
		}
	}
	if s.VM, err = ParseVM(vm); err != nil {
		return nil, fmt.Errorf("read golden %s: %w", path, err)
	}
	return s, nil
}

// Plan returns the plan as the library's VM type makes it now.
func (s *Sample) Plan(ctx context.Context, library *vmtypes.Library) (*plan.Plan, error) {
	t, err := library.Load(ctx, s.Type)
	if err != nil {
		return nil, err
	}
	return t.Launch(ctx, s.VM, s.Host.Host())
}

// Write keeps a plan in the archive.
func (s *Sample) Write(text string) error {
	files := s.archive.Files
	if n := len(files); n == 0 || files[n-1].Name != planSection {
		files = append(files, txtar.File{Name: planSection})
	}
	files[len(files)-1].Data = []byte(text)
	s.archive.Files, s.Text = files, text
	if err := os.WriteFile(s.Path, txtar.Format(s.archive), 0o644); err != nil {
		return fmt.Errorf("write golden: %w", err)
	}
	return nil
}
