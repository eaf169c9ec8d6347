package lsp

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"vmop/vmtypes"
)

// A libraryCopy is a copy of the library as files, so that editors can open definitions in it. It is created on first
// use, and removed when the server ends.
type libraryCopy struct {
	mu  sync.Mutex
	dir string // "" until the copy exists
}

// modulePath returns the path of a copied module of the library.
func (l *libraryCopy) modulePath(module string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dir == "" {
		dir, err := os.MkdirTemp(os.Getenv("XDG_RUNTIME_DIR"), "vmtypes-")
		if err != nil {
			return "", fmt.Errorf("create a folder for the library: %w", err)
		}
		if dir, err = filepath.EvalSymlinks(dir); err != nil {
			return "", err
		}
		l.dir = dir
		if err := l.writeCopy(); err != nil {
			return "", fmt.Errorf("write the library: %w", err)
		}
	}
	return filepath.Join(l.dir, strings.TrimPrefix(module, vmtypes.StockPrefix)), nil
}

func (l *libraryCopy) writeCopy() error {
	for _, module := range vmtypes.StockModules() {
		text, err := vmtypes.StockModule(module)
		if err != nil {
			return err
		}
		file := filepath.Join(l.dir, strings.TrimPrefix(module, vmtypes.StockPrefix))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700),
			os.WriteFile(file, []byte(text), 0o400)); err != nil {
			return err
		}
	}
	return nil
}

// moduleAt returns the module for the path of a copy, or "".
func (l *libraryCopy) moduleAt(path string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if rest, ok := strings.CutPrefix(path, l.dir+"/"); ok && l.dir != "" {
		return vmtypes.StockPrefix + rest
	}
	return ""
}

// removeCopy removes the copy, if it exists.
func (l *libraryCopy) removeCopy() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dir == "" {
		return nil
	}
	return os.RemoveAll(l.dir)
}
