package main

import (
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// drivers contains the sources of the C programs.
//
//go:embed driver/*.c
var drivers embed.FS

// buildProgram builds one of the small programs that are compared with QEMU or replace it. It uses C or, without a C
// compiler, Go. It returns the program's path and the language.
func (b *bench) buildProgram(name string) (path, language string, err error) {
	path = filepath.Join(b.dir, "bin", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", "", err
	}
	cc, lookErr := exec.LookPath(b.cc)
	if lookErr == nil {
		source, err := drivers.ReadFile("driver/" + name + ".c")
		if err != nil {
			return "", "", err
		}
		file := path + ".c"
		if err := os.WriteFile(file, source, 0o600); err != nil {
			return "", "", err
		}
		for _, linkage := range []string{"-static", "-no-pie"} { // a static C library may be missing
			if err = exec.CommandContext(b.ctx, cc, "-O2", linkage, "-o", path, file).Run(); err == nil {
				return path, "C", nil
			}
		}
	}
	path, err = b.buildGo(name)
	return path, "Go", err
}

// buildGo builds the Go version, in a folder next to the C version.
func (b *bench) buildGo(name string) (path string, err error) {
	path = filepath.Join(b.dir, "bin", "go", name)
	build := exec.CommandContext(b.ctx, "go", "build", "-o", path, "vmop/test/bench/bare")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return path, nil
}
