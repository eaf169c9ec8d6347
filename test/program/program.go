// Package program builds the project's programs for tests.
//
// "go test" reuses an earlier result if the test binary and the files that the test itself has read are unchanged. It
// does not notice files that a compiler reads on behalf of the test. This package therefore reads the sources itself,
// so that a result is never reused for a changed program.
//
// See docs/decisions/0164-tests-that-have-passed.md.
package program

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// Folder is the environment variable with the folder of the programs that "make test" has built for all packages.
const Folder = "VMOP_PROGRAMS"

// Build builds the program of a package ("vmop/cmd/vmrunner") as a file, or into an existing folder. It copies the
// program if make has built it.
func Build(ctx context.Context, to, pkg string) error {
	if made := filepath.Join(os.Getenv(Folder), path.Base(pkg)); os.Getenv(Folder) != "" && fileExists(made) {
		// Do not copy it in this process: a child process that starts at the same time would inherit the file open for
		// writing, and the file could not be executed.
		if out, err := exec.CommandContext(ctx, "cp", "--reflink=auto", made, to).CombinedOutput(); err != nil {
			return fmt.Errorf("copy %s: %w\n%s", pkg, err, out)
		}
		return nil
	}
	if err := LookAt(ctx, pkg); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", to, pkg).CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// sources lists a package's files if it belongs to the module of the working directory.
const sources = `{{with .Module}}{{if .Main}}{{.GoMod}}
{{range $.GoFiles}}{{$.Dir}}/{{.}}
{{end}}{{range $.EmbedFiles}}{{$.Dir}}/{{.}}
{{end}}{{end}}{{end}}`

// LookAt reads the state of all files of the module from which packages are built.
func LookAt(ctx context.Context, pkgs ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-deps", "-f", sources}, pkgs...)...)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	files, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("find the sources of %s: %w\n%s", strings.Join(pkgs, ", "), err, complaint.String())
	}
	for file := range strings.FieldsFuncSeq(string(files), func(r rune) bool { return r == '\n' }) {
		if _, err := os.Stat(file); err != nil {
			return fmt.Errorf("look at a source: %w", err)
		}
	}
	return nil
}

// LookInto reads the state of all files of a folder, for a program that will read them.
func LookInto(dir string) error {
	return filepath.WalkDir(dir, func(_ string, _ fs.DirEntry, err error) error { return err })
}

// Root returns the project's folder.
func Root(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "vmop").Output()
	if err != nil {
		return "", fmt.Errorf("find the project's folder: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
