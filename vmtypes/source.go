package vmtypes

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"vmop/internal/readfile"
)

// Limits of custom modules. The maximum nesting depth follows from the size of a module; the parser's stack is
// large enough for it.
const (
	// MaxModule is the maximum size of a module, in bytes.
	MaxModule = 256 << 10
	// MaxModules is the maximum number of files in a Source, MaxSource their maximum total size.
	MaxModules = 1000
	MaxSource  = 16 << 20
)

// A Source is a copy of the custom modules of a folder. With it, types can be evaluated in a place without access
// to the files.
type Source struct {
	// Dir is the folder, for messages.
	Dir string
	// Modules maps the names of files, such as "asset.star", to their texts.
	Modules map[string]string
	// Refused maps the names of unusable files to the reason.
	Refused map[string]string
}

// ReadSource reads all modules of a folder, including tests. If dir is "" or missing, the result is empty.
// ReadSource fails if the folder is unreadable or too large. An unreadable file only causes an error when a
// module loads it.
func ReadSource(dir string) (Source, error) {
	s := Source{Dir: dir, Modules: map[string]string{}, Refused: map[string]string{}}
	if dir == "" {
		return s, nil
	}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("open folder of VM types: %w", err)
	}
	defer func() { _ = root.Close() }() // it was only read
	size := 0
	for _, name := range (folder{root}).listNames() {
		text, err := readModule(root, name)
		if err != nil {
			s.Refused[name] = err.Error()
			continue
		}
		s.Modules[name] = text
		size += len(text)
		if len(s.Modules) > MaxModules || size > MaxSource {
			return s, fmt.Errorf("read the VM types in %s: there are more than %d files, or %d MiB",
				dir, MaxModules, MaxSource>>20)
		}
	}
	return s, nil
}

// Library returns a library with the custom types of the source.
func (s Source) Library() *Library {
	return &Library{dir: s.Dir, custom: s, close: func() error { return nil }}
}

// listNames implements files.
func (s Source) listNames() []string {
	list := slices.AppendSeq(slices.Collect(maps.Keys(s.Modules)), maps.Keys(s.Refused))
	slices.Sort(list)
	return list
}

// readFile implements files.
func (s Source) readFile(name string) (string, error) {
	if reason, ok := s.Refused[name]; ok {
		return "", errors.New(reason)
	}
	text, ok := s.Modules[name]
	if !ok {
		return "", fs.ErrNotExist
	}
	return text, nil
}

// files is a source of custom modules.
type files interface {
	// listNames returns the names of the modules, sorted.
	listNames() []string
	// readFile returns the text of a module, or fs.ErrNotExist.
	readFile(name string) (string, error)
}

// folder reads the files of a folder on demand.
type folder struct{ root *os.Root }

// listNames implements files.
func (f folder) listNames() []string {
	list, err := fs.Glob(f.root.FS(), "*.star")
	if err != nil {
		return nil // only a malformed pattern is an error
	}
	return list
}

// readFile implements files.
func (f folder) readFile(name string) (string, error) { return readModule(f.root, name) }

// readModule reads a file that can be of any kind and size.
func readModule(root *os.Root, name string) (string, error) {
	text, err := readfile.ReadIn(root, name, MaxModule)
	return string(text), err
}

// entryNames returns the names of the types among modules.
func entryNames(modules []string) []string {
	var list []string
	for _, file := range modules {
		if name := strings.TrimSuffix(file, ".star"); !strings.HasSuffix(name, "_test") && name != "testing" {
			list = append(list, name)
		}
	}
	return list
}
