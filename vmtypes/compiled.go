package vmtypes

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"weak"

	"go.starlark.net/starlark"
)

// compiled contains the stock modules in the interpreter's compiled form. This saves the runner from parsing
// them, which takes a third of the time until QEMU starts. Each file begins with the hash of its source.
//
//go:generate go run ./compile
//go:embed all:compiled
var compiled embed.FS

// compiledSuffix is added to a module's name: lib/tpm.star.bin.
const compiledSuffix = ".bin"

// A stockModule is an embedded module. It never changes, so types share it.
type stockModule struct {
	source  string
	program *starlark.Program // nil if it wasn't compiled from exactly this source by this interpreter
}

// stockInUse contains the stock modules that a loaded type uses, by name: a weak.Pointer[stockModule].
var stockInUse sync.Map

// openStock returns a stock module by its name without prefix.
func openStock(file string) (*stockModule, error) {
	if used, ok := stockInUse.Load(file); ok {
		if m := used.(weak.Pointer[stockModule]).Value(); m != nil {
			return m, nil
		}
	}
	source, err := stock.ReadFile(file)
	if err != nil {
		return nil, err
	}
	m := &stockModule{string(source), decodeProgram(file, source)}
	stockInUse.Store(file, weak.Make(m))
	return m, nil
}

// decodeProgram returns the compiled form of a stock module, or nil if it was not compiled from exactly this source by
// this interpreter.
func decodeProgram(file string, source []byte) *starlark.Program {
	data, err := compiled.ReadFile("compiled/" + file + compiledSuffix)
	if err != nil {
		return nil
	}
	hash := sha256.Sum256(source)
	code, current := bytes.CutPrefix(data, hash[:])
	if !current {
		return nil
	}
	program, err := starlark.CompiledProgram(bytes.NewReader(code))
	if err != nil {
		return nil
	}
	return program
}

// precompiledModule returns the stock module with this name and source, or nil. It also works for pinned types.
//
// See docs/decisions/0007-compiled-modules.md.
func precompiledModule(module, source string) *stockModule {
	file, ok := strings.CutPrefix(module, stockPrefix)
	if !ok {
		return nil
	}
	m, err := openStock(file)
	if err != nil || m.program == nil || m.source != source {
		return nil
	}
	return m
}

// Compile replaces the content of a folder with the compiled forms of all stock modules. go generate calls it.
func Compile(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return fs.WalkDir(stock, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := compileStock(file)
		if err != nil {
			return err
		}
		target := filepath.Join(dir, file+compiledSuffix)
		if err := os.MkdirAll(path.Dir(target), 0o755); err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o644)
	})
}

func compileStock(file string) ([]byte, error) {
	source, err := stock.ReadFile(file)
	if err != nil {
		return nil, err
	}
	predeclared := Predeclared()
	_, program, err := starlark.SourceProgramOptions(fileOptions(), stockPrefix+file, source, predeclared.Has)
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", file, err)
	}
	hash := sha256.Sum256(source)
	data := bytes.NewBuffer(hash[:])
	if err := program.Write(data); err != nil {
		return nil, fmt.Errorf("compile %s: %w", file, err)
	}
	return data.Bytes(), nil
}
