package lsp

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"vmop/internal/atomicfile"
	"vmop/vmtypes"
)

// A libraryCopy is a copy of the library as read-only files, so that editors can open definitions in it. It is in a
// folder of the user's cache, with a name that depends on the content. So the paths stay the same in later sessions,
// and tabs that an editor restores still exist. Without a cache, the copy is in a temporary folder until the
// server ends.
type libraryCopy struct {
	cache string // the folder of copies; "" if there is no cache

	mu      sync.Mutex
	dir     string // of this copy; "" until it is known
	written bool   // the copy is complete
}

// unusedCopy is the age of a removed copy of another version of the library.
const unusedCopy = 30 * 24 * time.Hour

// findDir sets dir. The caller must hold l.mu.
func (l *libraryCopy) findDir() error {
	if l.dir != "" {
		return nil
	}
	if l.cache == "" {
		dir, err := os.MkdirTemp(os.Getenv("XDG_RUNTIME_DIR"), "vmtypes-")
		if err != nil {
			return fmt.Errorf("create a folder for the library: %w", err)
		}
		l.dir, err = filepath.EvalSymlinks(dir)
		return err
	}
	sum := sha256.New()
	for _, module := range vmtypes.StockModules() {
		text, err := vmtypes.StockModule(module)
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%s\x00%d\x00%s", module, len(text), text)
	}
	if err := os.MkdirAll(l.cache, 0o700); err != nil {
		return fmt.Errorf("create a folder for the library: %w", err)
	}
	cache, err := filepath.EvalSymlinks(l.cache)
	if err != nil {
		return err
	}
	l.dir = filepath.Join(cache, fmt.Sprintf("%x", sum.Sum(nil)[:8]))
	return nil
}

// modulePath returns the path of a copied module of the library.
func (l *libraryCopy) modulePath(module string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.findDir(); err != nil {
		return "", err
	}
	if !l.written {
		if err := l.writeCopy(); err != nil {
			return "", fmt.Errorf("write the library: %w", err)
		}
		l.written = true
		l.removeOldCopies()
	}
	return filepath.Join(l.dir, strings.TrimPrefix(module, vmtypes.StockPrefix)), nil
}

// writeCopy writes the modules that are missing or have another content.
func (l *libraryCopy) writeCopy() error {
	for _, module := range vmtypes.StockModules() {
		text, err := vmtypes.StockModule(module)
		if err != nil {
			return err
		}
		file := filepath.Join(l.dir, strings.TrimPrefix(module, vmtypes.StockPrefix))
		if have, err := os.ReadFile(file); err == nil && string(have) == text {
			continue
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700),
			atomicfile.Write(file, []byte(text), 0o400, atomicfile.Volatile)); err != nil {
			return err
		}
	}
	now := time.Now()
	return os.Chtimes(l.dir, now, now) // its time of use
}

// removeOldCopies removes the copies of other versions that were not used for a month. If that fails, they stay.
func (l *libraryCopy) removeOldCopies() {
	if l.cache == "" {
		return
	}
	entries, err := os.ReadDir(l.cache)
	if err != nil {
		return
	}
	for _, entry := range entries {
		path := filepath.Join(l.cache, entry.Name())
		info, err := entry.Info()
		if err == nil && entry.IsDir() && path != l.dir && time.Since(info.ModTime()) > unusedCopy {
			_ = os.RemoveAll(path) // another server may remove it at the same time
		}
	}
}

// moduleAt returns the module for the path of a copy, or "". The editor may have opened it in an earlier session.
func (l *libraryCopy) moduleAt(path string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dir == "" && (l.cache == "" || l.findDir() != nil) {
		return ""
	}
	if rest, ok := strings.CutPrefix(path, l.dir+"/"); ok {
		return vmtypes.StockPrefix + rest
	}
	return ""
}

// removeCopy removes the copy if it is temporary.
func (l *libraryCopy) removeCopy() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dir == "" || l.cache != "" {
		return nil
	}
	return os.RemoveAll(l.dir)
}
