// Package editors configures editors for a folder of VM types. [Write] writes two kinds of files: a stub file (package
// reference), from which editors for Python learn the names that VM types can use, and settings for VS Code. It
// overwrites its own stubs, but never a file that belongs to the user. "vmrunner vmtype stubs" calls it.
package editors

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"vmop/authoring/reference"
)

// A File is a file that Write handles.
type File struct {
	Path string
	Done Action
}

// An Action is the result of Write for a file.
type Action string

// The actions.
const (
	Written   Action = "written"
	Unchanged Action = "unchanged" // it was up to date
	Kept      Action = "kept"      // it belongs to the user
)

// A Conflict is a file of the user that Write kept unchanged.
type Conflict struct {
	Path string
	Want string // the content that Write would have written
}

// Error describes what the user must add to the file.
func (e Conflict) Error() string {
	return fmt.Sprintf("%s is your own file and was left unchanged; add this to it:\n%s", e.Path,
		strings.TrimSuffix(e.Want, "\n"))
}

// Write writes stubs and settings into a folder, and returns the action for each file. It overwrites its own stubs. It
// writes settings only if the file doesn't exist. A settings file with other content is a [Conflict].
func Write(dir string) ([]File, error) {
	if info, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("set up editors: %w", err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("set up editors: %s is not a folder", dir)
	}
	stubs := filepath.Join(dir, reference.StubsName)
	done, err := replaceOwnFile(stubs, reference.Stubs())
	files := []File{{stubs, done}}
	errs := []error{err}
	for _, f := range []struct{ name, text string }{{"settings.json", settings}, {"extensions.json", extensions}} {
		path := filepath.Join(dir, ".vscode", f.name)
		done, err := createFile(path, f.text)
		files, errs = append(files, File{path, done}), append(errs, err)
	}
	return files, errors.Join(errs...)
}

// replaceOwnFile writes a file, or replaces an earlier version of it. It keeps a file that the user wrote.
func replaceOwnFile(path, text string) (Action, error) {
	old, err := os.ReadFile(path)
	first, _, _ := strings.Cut(text, "\n")
	switch {
	case err == nil && string(old) == text:
		return Unchanged, nil
	case err == nil && !strings.HasPrefix(string(old), first):
		return Kept, fmt.Errorf("write stubs: %s was not written by vmrunner: move it away", path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return Kept, fmt.Errorf("write stubs: %w", err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return Kept, fmt.Errorf("write stubs: %w", err)
	}
	return Written, nil
}

// createFile writes a file unless it exists.
func createFile(path, text string) (Action, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return Kept, fmt.Errorf("write settings: %w", err)
	}
	old, err := os.ReadFile(path)
	switch {
	case err == nil && string(old) == text:
		return Unchanged, nil
	case err == nil:
		return Kept, Conflict{path, text}
	case !errors.Is(err, fs.ErrNotExist):
		return Kept, fmt.Errorf("write settings: %w", err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return Kept, fmt.Errorf("write settings: %w", err)
	}
	return Written, nil
}

// settings are the settings for VS Code. Its extension for Bazel supports Starlark and can start any language server
// for it. The settings disable the extension's features for Bazel.
const settings = `{
  "files.associations": { "*.star": "starlark" },
  "[starlark]": {
    "editor.insertSpaces": true,
    "editor.tabSize": 4,
    "editor.formatOnSave": true
  },
  "bazel.lsp.command": "vmrunner",
  "bazel.lsp.args": ["vmtype", "lsp"],
  "bazel.buildifier.enable": false,
  "bazel.codeLens.enable": false,
  "bazel.workspaceTree.enable": false
}
`

// extensions are the extensions that VS Code recommends to install.
const extensions = `{
  "recommendations": ["BazelBuild.vscode-bazel", "redhat.vscode-yaml"]
}
`
