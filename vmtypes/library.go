package vmtypes

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// stock contains the embedded modules.
//
//go:embed *.star lib/*.star
var stock embed.FS

// DefaultDir is the default folder of custom types.
const DefaultDir = "/opt/vmrunner/vmtypes"

// A Library finds VM types by name. It contains the stock types and the custom types of one folder.
type Library struct {
	dir    string
	custom files // nil without a folder
	close  func() error
}

// Open returns the library with the custom types of dir. If dir is "" or missing, the library contains only stock
// types.
func Open(dir string) (*Library, error) {
	l := &Library{dir: dir, close: func() error { return nil }}
	if dir == "" {
		return l, nil
	}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open folder of VM types: %w", err)
	}
	l.custom, l.close = folder{root}, root.Close
	return l, nil
}

// Close releases the folder.
func (l *Library) Close() error { return l.close() }

// Names returns the names of all VM types, sorted. A custom file with the name of a stock type is omitted,
// because stock types take precedence.
func (l *Library) Names() []string {
	list := entryNames(stockTypes())
	if l.custom != nil {
		for _, name := range entryNames(l.custom.listNames()) {
			if !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
	}
	slices.Sort(list)
	return list
}

// Load finds a type by name, evaluates its modules and checks it. An absolute path as the name loads a file
// outside the library's folder.
func (l *Library) Load(ctx context.Context, name string) (*Type, error) {
	if filepath.IsAbs(name) {
		return l.loadPath(ctx, name)
	}
	name = strings.TrimSuffix(name, ".star")
	entry := name + ".star"
	if IsStock(name) {
		return loadType(ctx, name, stockPrefix+entry, APIVersion, l.readSource)
	}
	if l.custom == nil || !fs.ValidPath(entry) || strings.Contains(name, "/") {
		return nil, l.unknownType(name)
	}
	if !slices.Contains(l.custom.listNames(), entry) {
		return nil, l.unknownType(name)
	}
	return l.LoadFile(ctx, entry)
}

// LoadFile loads a type from a file in the library's folder, even if there is a stock type with this name.
func (l *Library) LoadFile(ctx context.Context, file string) (*Type, error) {
	return loadType(ctx, strings.TrimSuffix(file, ".star"), file, APIVersion, l.readSource)
}

// IsStock reports whether name is the name of a stock type.
func IsStock(name string) bool {
	return slices.Contains(stockTypes(), strings.TrimSuffix(name, ".star")+".star")
}

// loadPath loads a type from a file outside the library's folder.
func (l *Library) loadPath(ctx context.Context, file string) (*Type, error) {
	dir, base := filepath.Split(file)
	other, err := Open(filepath.Clean(dir))
	if err != nil {
		return nil, err
	}
	defer func() { _ = other.Close() }() // it was only read
	return other.LoadFile(ctx, base)
}

// Source returns the name and the text of the module that defines a type, without evaluating it. A custom type
// must be in the library's folder.
func (l *Library) Source(name string) (module, text string, err error) {
	name = strings.TrimSuffix(name, ".star")
	module = name + ".star"
	switch {
	case IsStock(name):
		module = stockPrefix + module
	case l.custom == nil || !slices.Contains(l.custom.listNames(), module):
		return "", "", l.unknownType(name)
	}
	text, err = l.readSource(module)
	return module, text, err
}

func (l *Library) unknownType(name string) error {
	where := "there is no folder of custom types"
	if l.dir != "" {
		where = "custom types are looked for in " + l.dir
	}
	known := l.Names()
	return &Error{Message: fmt.Sprintf("there is no VM type %q%s; known are %s; %s",
		name, didYouMean(name, known), strings.Join(known, ", "), where)}
}

// readSource returns the source of a module.
func (l *Library) readSource(module string) (string, error) {
	if file, ok := strings.CutPrefix(module, stockPrefix); ok {
		m, err := openStock(file)
		if err != nil {
			return "", fmt.Errorf("the library has no such module%s", didYouMean(module, stockModules()))
		}
		return m.source, nil
	}
	if l.custom == nil {
		return "", errors.New("there is no folder of custom types")
	}
	text, err := l.custom.readFile(module)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("there is no such file in %s%s", l.dir, didYouMean(module, l.custom.listNames()))
	}
	if err != nil {
		return "", fmt.Errorf("read it from %s: %w", l.dir, err)
	}
	return text, nil
}

// stockTypes returns the files of the stock types.
func stockTypes() []string {
	list, err := fs.Glob(stock, "*.star")
	if err != nil {
		panic(err) // the pattern is malformed
	}
	return list
}

// stockModules returns the names of all embedded modules.
func stockModules() []string {
	var list []string
	_ = fs.WalkDir(stock, ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			list = append(list, stockPrefix+p)
		}
		return nil
	})
	return list
}
