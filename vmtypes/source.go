package vmtypes

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"vmop/regular"
)

// Bounds of custom modules. The depth to which a module can be nested follows
// from its size: the stack of the parser has room for more than that.
const (
	// MaxModule is the size of a module, in bytes.
	MaxModule = 256 << 10
	// MaxModules is how many files a Source has, MaxSource their size together.
	MaxModules = 1000
	MaxSource  = 16 << 20
)

// A Source is the custom modules of one folder as they were when they were read:
// enough to evaluate types elsewhere, where there are no files.
type Source struct {
	// Dir is the folder, for messages.
	Dir string
	// Modules are the texts, by the names of the files: "asset.star".
	Modules map[string]string
	// Refused are files that can't be modules, with the reason.
	Refused map[string]string
}

// ReadSource reads all modules of a folder, tests included. A folder that
// doesn't exist, or "", has none. The error tells of a folder that can't be read
// or has too much in it; a file that can't be read is an error for those who
// load it.
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
	for _, name := range (folder{root}).names() {
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

// Library returns the library whose custom types are those of the source.
func (s Source) Library() *Library {
	return &Library{dir: s.Dir, custom: s, close: func() error { return nil }}
}

// names implements files.
func (s Source) names() []string {
	list := slices.AppendSeq(slices.Collect(maps.Keys(s.Modules)), maps.Keys(s.Refused))
	slices.Sort(list)
	return list
}

// read implements files.
func (s Source) read(name string) (string, error) {
	if reason, ok := s.Refused[name]; ok {
		return "", errors.New(reason)
	}
	text, ok := s.Modules[name]
	if !ok {
		return "", fs.ErrNotExist
	}
	return text, nil
}

// files are where custom modules come from.
type files interface {
	// names of the modules, sorted.
	names() []string
	// read returns the text of a module; fs.ErrNotExist if there is none.
	read(name string) (string, error)
}

// folder reads the files of a folder as they are asked for.
type folder struct{ root *os.Root }

// names implements files.
func (f folder) names() []string {
	list, err := fs.Glob(f.root.FS(), "*.star")
	if err != nil {
		return nil // only a malformed pattern is an error
	}
	return list
}

// read implements files.
func (f folder) read(name string) (string, error) { return readModule(f.root, name) }

// readModule reads a file that may be anything.
func readModule(root *os.Root, name string) (string, error) {
	text, err := regular.ReadIn(root, name, MaxModule)
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
