package guest

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// With returns the guest with programs of this machine added, in the same
// places, and the libraries they need. The kernel unpacks one archive after the
// other, so it is the guest's own followed by another.
func (i Image) With(t testing.TB, programs ...string) Image {
	t.Helper()
	var more archive
	taken := map[string]bool{}
	for _, program := range programs {
		if err := more.addProgram(program, taken); err != nil {
			t.Fatalf("add %s to the guest: %v", program, err)
		}
	}
	own, err := os.ReadFile(i.Initrd)
	if err != nil {
		t.Fatalf("read the guest: %v", err)
	}
	i.Initrd = filepath.Join(t.TempDir(), "initrd.gz")
	if err := os.WriteFile(i.Initrd, append(own, packFast(more.archiveBytes())...), 0o600); err != nil {
		t.Fatalf("write the guest: %v", err)
	}
	return i
}

// addProgram adds a program or library, what it is linked with, and the folders
// that lead to it.
func (a *archive) addProgram(path string, taken map[string]bool) error {
	if taken[path] {
		return nil
	}
	taken[path] = true
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for dir := filepath.Dir(path); dir != "/"; dir = filepath.Dir(dir) {
		if !taken[dir] {
			taken[dir] = true
			a.addDir(dir[1:])
		}
	}
	a.addFile(path[1:], 0o755, content)
	needed, err := linkedLibraries(path)
	if err != nil {
		return err
	}
	for _, library := range needed {
		if err := a.addProgram(library, taken); err != nil {
			return err
		}
	}
	return nil
}

// libraries are the folders where the dynamic linker of Debian and its kin finds
// libraries on its own.
var libraries = []string{
	"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib",
	"/usr/lib",
}

// linkedLibraries returns the dynamic linker and the libraries of a program, without
// those of the libraries.
func linkedLibraries(path string) ([]string, error) {
	program, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer program.Close()
	var found []string
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP {
			name := make([]byte, p.Filesz)
			if _, err := p.ReadAt(name, 0); err != nil {
				return nil, fmt.Errorf("read the name of its linker: %w", err)
			}
			found = append(found, string(name[:len(name)-1]))
		}
	}
	names, err := program.ImportedLibraries()
	if err != nil {
		return nil, fmt.Errorf("read what it is linked with: %w", err)
	}
	for _, name := range names {
		library, err := findLibrary(name)
		if err != nil {
			return nil, err
		}
		found = append(found, library)
	}
	return found, nil
}

func findLibrary(library string) (string, error) {
	for _, dir := range libraries {
		if path := filepath.Join(dir, library); fileExists(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("there is no %s in %v", library, libraries)
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
