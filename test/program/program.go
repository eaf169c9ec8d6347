// Package program builds the project's programs for tests.
//
// "go test" prints the result of an earlier run where nothing differs that the test
// consists of or has read itself. What a compiler reads that the test has started, it
// doesn't see. So the sources are looked at here, that no test vouches for a program
// that it never ran.
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

// Build builds the program of a package ("vmop/cmd/vmrunner") as a file, or into a folder that exists. It copies a
// program that make has built.
func Build(ctx context.Context, to, pkg string) error {
	if made := filepath.Join(os.Getenv(Folder), path.Base(pkg)); os.Getenv(Folder) != "" && fileExists(made) {
		// Not by this process: a child that it starts meanwhile would have the file open for writing, and it can't be
		// executed then.
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

// sources lists a package's files, if it belongs to the module that "go list" runs in.
const sources = `{{with .Module}}{{if .Main}}{{.GoMod}}
{{range $.GoFiles}}{{$.Dir}}/{{.}}
{{end}}{{range $.EmbedFiles}}{{$.Dir}}/{{.}}
{{end}}{{end}}{{end}}`

// LookAt looks at all of the module's files that packages are built from.
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

// LookInto looks at all files of a folder, for a program that will read it.
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
