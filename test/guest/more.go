package guest

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// With returns the guest with added programs of this machine, at the same paths, and their libraries. They are a second
// archive after the guest's own: the kernel unpacks consecutive archives.
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

// addProgram adds a program or library, its libraries, and its parent folders.
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

// libraries are the default folders of the dynamic linker on Debian and its derivatives.
var libraries = []string{
	"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib",
	"/usr/lib",
}

// linkedLibraries returns the dynamic linker and the direct libraries of a program.
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
