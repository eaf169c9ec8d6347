// Command images builds the container images of the runner and of the manager, without a container engine and without
// root privileges:
//
//	go run ./deploy/images -version v1.0.0
//
// It writes build/images/runner.tar and manager.tar, with the images vmop/runner:v1.0.0 and vmop/manager:v1.0.0. Each
// file is an OCI archive and also has the format of "docker save". The Containerfiles here describe the contents.
//
// The runner's image has two layers. The lower layer contains Debian's packages: the packages listed in the file
// packages, and the dependencies that apt finds. Package scripts are not run. The upper layer contains the program. The
// same packages and the same program produce the same image: all times are SOURCE_DATE_EPOCH (a Unix time in the
// environment, see reproducible-builds.org/specs/source-date-epoch), or 0.
//
// The user's cache folder keeps the downloaded packages and the lower layers. The package lists are updated once a day.
//
// See docs/decisions/0041-images.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := runBuild(ctx, os.Args[1:])
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func runBuild(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("images", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "images [FLAGS] [runner] [manager]: builds container images, all if none is named")
		flags.PrintDefaults()
	}
	version := flags.String("version", "devel", "the images' tag, and what the programs say of themselves")
	out := flags.String("o", "build/images", "`folder` to write to")
	fresh := flags.Bool("update", false, "ask for packages now, though it was done today")
	architecture := flags.String("arch", amd64, "of the nodes: amd64 or arm64, whose files are NAME-arm64.tar")
	programs := flags.String("programs", "", "`folder` with our programs for these nodes; without it they are built")
	with := flags.String("with", "", "further `packages` of Debian for the runner's image, separated by spaces")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *architecture != amd64 && *architecture != arm64 {
		return fmt.Errorf("there are no images for %q: use amd64 or arm64", *architecture)
	}
	wanted, err := recipesNamed(flags.Args(), *architecture, strings.Fields(*with))
	if err != nil {
		return err
	}
	created, err := parseEpoch(os.Getenv("SOURCE_DATE_EPOCH"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return fmt.Errorf("folder for images: %w", err)
	}
	a, unlock, err := openCache(*architecture)
	if err != nil {
		return err
	}
	defer unlock()
	if err := a.updateLists(ctx, *fresh); err != nil {
		return err
	}
	for _, r := range wanted {
		made, err := r.buildImage(ctx, a, compiler{*version, *architecture, *programs}, created)
		if err != nil {
			return err
		}
		file := filepath.Join(*out, r.name+".tar")
		if *architecture != amd64 {
			file = filepath.Join(*out, r.name+"-"+*architecture+".tar")
		}
		if err := made.writeArchive(file); err != nil {
			return err
		}
		fmt.Println(made.summaryLine(file))
	}
	return nil
}

// recipesNamed returns the recipes with these names, or all recipes if names is empty.
func recipesNamed(names []string, architecture string, with []string) ([]recipe, error) {
	all := allRecipes(architecture, with...)
	if len(names) == 0 {
		return all, nil
	}
	var wanted []recipe
	for _, name := range names {
		found := slices.IndexFunc(all, func(r recipe) bool { return r.name == name })
		if found < 0 {
			return nil, fmt.Errorf("there is no image %q: use runner or manager", name)
		}
		wanted = append(wanted, all[found])
	}
	return wanted, nil
}

// openCache finds the cache folder, and blocks other builds until unlock is called.
func openCache(architecture string) (a apt, unlock func(), err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return a, nil, fmt.Errorf("folder for packages: %w", err)
	}
	a = apt{filepath.Join(cache, "vmop", "images"), architecture}
	if architecture != amd64 {
		a.dir = filepath.Join(a.dir, architecture)
	}
	if err := os.MkdirAll(a.dir, 0o755); err != nil {
		return a, nil, fmt.Errorf("folder for packages: %w", err)
	}
	if unlock, err = a.lockCache(); err != nil {
		return a, nil, err
	}
	if err := a.prepareFolders(); err != nil {
		unlock()
		return a, nil, err
	}
	return a, unlock, nil
}

// parseEpoch reads SOURCE_DATE_EPOCH.
func parseEpoch(text string) (time.Time, error) {
	if text == "" {
		return time.Unix(0, 0).UTC(), nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH=%s: must be seconds since 1970", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// compiler builds our programs for the images.
type compiler struct {
	version      string
	architecture string
	programs     string // a folder with built programs; if empty, the programs are built
}

func (c compiler) buildProgram(ctx context.Context, program, file string) error {
	if c.programs != "" {
		text, err := os.ReadFile(filepath.Join(c.programs, program))
		if err != nil {
			return fmt.Errorf("copy %s: %w", program, err)
		}
		return os.WriteFile(file, text, 0o755)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false",
		"-ldflags", "-s -X main.version="+c.version, "-o", file, "vmop/cmd/"+program)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+c.architecture)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", program, err, out)
	}
	return nil
}
