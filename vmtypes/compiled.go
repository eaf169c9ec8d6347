package vmtypes

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

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

// precompiledProgram returns the compiled form of a stock module if it was compiled from exactly this source, otherwise
// nil. It also works for pinned types.
//
// See docs/decisions/0007-compiled-modules.md.
func precompiledProgram(module, source string) *starlark.Program {
	file, ok := strings.CutPrefix(module, stockPrefix)
	if !ok {
		return nil
	}
	data, err := compiled.Open("compiled/" + file + compiledSuffix)
	if err != nil {
		return nil
	}
	defer data.Close()
	var made [sha256.Size]byte
	if _, err := io.ReadFull(data, made[:]); err != nil || made != sha256.Sum256([]byte(source)) {
		return nil
	}
	program, err := starlark.CompiledProgram(data)
	if err != nil {
		return nil // compiled by another version of the interpreter
	}
	return program
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
