// Command third_party collects the licenses of all code that is compiled into the programs under cmd, including the Go
// standard library. It writes NOTICES.txt into its folder, because the licenses require this for distribution.
//
//	go run ./deploy/third_party          # write the file, as "make generate" does
//	go run ./deploy/third_party -check   # check that it is current, as "make check" does
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
)

//go:generate go run . -o NOTICES.txt

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "third_party:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("third_party", flag.ContinueOnError)
	path := flags.String("o", "deploy/third_party/NOTICES.txt", "the `file` to write or to check")
	check := flags.Bool("check", false, "write nothing, and fail when the file is not current")
	if err := flags.Parse(args); err != nil {
		return err
	}
	modules, err := compiledIn(ctx)
	if err != nil {
		return err
	}
	current, err := notices(modules)
	if err != nil {
		return err
	}
	if !*check {
		return os.WriteFile(*path, current, 0o644)
	}
	stored, err := os.ReadFile(*path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !bytes.Equal(stored, current) {
		return fmt.Errorf("%s is out of date: make generate", *path)
	}
	return nil
}

// module is a third-party module: its name and version to show, its folder, and the subfolders with the packages that
// our programs use.
type module struct {
	Name, Version, Dir string
	Packages           []string
}

// compiledIn lists the modules of all packages in the programs on Linux, sorted by name after the Go standard library.
// Without programs it returns only the standard library.
func compiledIn(ctx context.Context) ([]module, error) {
	goroot, err := golang(ctx, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	// For a replaced module, use the replacement.
	const format = `{{$dir := .Dir}}{{with .Module}}{{if not .Main}}` +
		`{{with or .Replace .}}{{.Path}} {{.Version}} {{.Dir}} {{$dir}}{{end}}{{end}}{{end}}`
	list, err := golang(ctx, "list", "-deps", "-f", format, "vmop/cmd/...")
	if err != nil {
		return nil, err
	}
	goroot = strings.TrimSpace(goroot)
	modules := []module{{Name: "The Go programming language", Dir: goroot, Packages: []string{goroot}}}
	for _, line := range slices.Sorted(strings.Lines(list)) {
		fields := strings.Fields(line)
		if len(fields) != 4 {
			continue
		}
		if last := &modules[len(modules)-1]; last.Name != fields[0] {
			modules = append(modules, module{Name: fields[0], Version: fields[1], Dir: fields[2]})
		}
		last := &modules[len(modules)-1]
		last.Packages = append(last.Packages, fields[3])
	}
	return modules, nil
}

func golang(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "go", args...)
	command.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w: %s", args[0], err, stderr.String())
	}
	return string(out), nil
}
