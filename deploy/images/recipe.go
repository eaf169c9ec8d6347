package main

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

//go:embed passwd
var passwd []byte

//go:embed group
var group []byte

// builder is the source that determines a layer's contents in addition to the packages.
//
//go:embed recipe.go
//go:embed layer.go
//go:embed debian.go
var builder embed.FS

// user runs the image's program. It is a numeric ID without an account.
const user = "65532:65532"

// recipe describes the contents of an image.
type recipe struct {
	name      string // runner of vmop/runner
	title     string
	packages  []string               // names of Debian packages
	kept      string                 // prefix of the cached layer of packages
	want      func(name string) bool // selects files of the packages
	linked    bool                   // whether the packages expect /lib to be a link to /usr/lib
	program   string                 // the entry point, in cmd/
	others    []string               // additional programs, for other pods
	arguments []string               // used if the container specifies none
}

// allRecipes returns all recipes. with lists additional packages for the runner.
func allRecipes(architecture string, with ...string) []recipe {
	list, kept := packageList, "runner-"
	if architecture == arm64 {
		list = packageListARM
	}
	if len(with) > 0 {
		kept = "with-runner-"
	}
	return []recipe{
		{
			name: "runner", title: "Runs a virtual machine by QEMU", packages: append(strings.Fields(list), with...),
			kept: kept, want: isNeeded, linked: true,
			program: "vmrunner", others: []string{"vmimport"}, arguments: []string{"init"},
		},
		{
			name: "manager", title: "Manages virtual machines on Kubernetes", packages: []string{"ca-certificates"},
			kept:    "manager-",
			want:    func(name string) bool { return strings.HasPrefix(name, authorities) },
			program: "vmmanager", arguments: []string{"run"},
		},
	}
}

// buildImage builds the image.
func (r recipe) buildImage(ctx context.Context, a apt, c compiler, created time.Time) (*image, error) {
	debs, err := a.downloadPackages(ctx, r.packages)
	if err != nil {
		return nil, err
	}
	lower, err := r.systemLayer(ctx, a, debs)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "image")
	if err != nil {
		return nil, fmt.Errorf("build an image: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	upper := filepath.Join(dir, "layer.tar.gz")
	if err := r.writeOwnLayer(ctx, upper, dir, c, created); err != nil {
		return nil, err
	}
	return assembleImage(r, []string{lower, upper}, c, created, len(debs))
}

// systemLayer returns the file of the layer of Debian's packages. The cached file's name is a hash of the packages and
// of the builder.
func (r recipe) systemLayer(ctx context.Context, a apt, debs []deb) (string, error) {
	hash := sha256.New()
	for _, name := range []string{"recipe.go", "layer.go", "debian.go"} {
		text, err := builder.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("name a layer: %w", err)
		}
		hash.Write(text)
	}
	for _, d := range debs {
		fmt.Fprintln(hash, d.file, d.sha256)
	}
	file := filepath.Join(a.dir, "layers", r.kept+hex.EncodeToString(hash.Sum(nil))[:16]+".tar.gz")
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	if err := r.writeSystem(ctx, a, debs, file+".new"); err != nil {
		return "", err
	}
	old, err := filepath.Glob(filepath.Join(a.dir, "layers", r.kept+"*.tar.gz"))
	for _, name := range old {
		err = errors.Join(err, os.Remove(name))
	}
	if err := errors.Join(err, os.Rename(file+".new", file)); err != nil {
		return "", fmt.Errorf("keep a layer: %w", err)
	}
	return file, nil
}

// writeSystem writes the layer of Debian's packages. It does not contain our version or a date, so it stays the same
// until a package changes.
func (r recipe) writeSystem(ctx context.Context, a apt, debs []deb, file string) error {
	l, err := newLayer(file, time.Unix(0, 0))
	if err != nil {
		return err
	}
	if r.linked {
		err = l.mergeIntoUsr()
	}
	var status strings.Builder
	for _, d := range debs {
		if err != nil {
			break
		}
		used := r.linked // of the manager's packages, list only those with files in the image
		err = a.readArchive(ctx, d, func(archive io.Reader) error {
			return l.unpackPackage(archive, func(name string) bool {
				wanted := r.want(name)
				used = used || wanted
				return wanted
			})
		})
		if err == nil && used {
			var control string
			control, err = a.statusEntry(ctx, d)
			status.WriteString(control)
		}
	}
	if err == nil {
		err = l.addText("var/lib/dpkg/status", []byte(status.String()))
	}
	if err == nil {
		err = l.bundleCertificates()
	}
	return errors.Join(err, l.closeLayer())
}

// writeOwnLayer writes the layer with our own files. It builds the programs into dir.
func (r recipe) writeOwnLayer(ctx context.Context, file, dir string, c compiler, created time.Time) error {
	programs := append([]string{r.program}, r.others...)
	for _, program := range programs {
		if err := c.buildProgram(ctx, program, filepath.Join(dir, program)); err != nil {
			return err
		}
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	l, err := newLayer(file, created)
	if err != nil {
		return err
	}
	err = errors.Join(l.addText("etc/passwd", passwd), l.addText("etc/group", group))
	for _, notice := range []string{"LICENSE", "NOTICE", "deploy/third_party/NOTICES.txt"} {
		err = errors.Join(err, l.addHostFile("usr/share/doc/vmop/"+filepath.Base(notice), filepath.Join(root, notice),
			0o644))
	}
	for _, program := range programs {
		err = errors.Join(err, l.addHostFile(folder+program, filepath.Join(dir, program), 0o755))
	}
	return errors.Join(err, l.closeLayer())
}

// folder contains our programs in an image.
const folder = "usr/local/bin/"

// programPath returns the path of the program in the image.
func (r recipe) programPath() string { return folder + r.program }

// moduleRoot returns the root folder of the project.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "vmop").Output()
	if err != nil {
		return "", fmt.Errorf("find the project's folder: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
