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

// builder is what decides about a layer besides its packages.
//
//go:embed recipe.go
//go:embed layer.go
//go:embed debian.go
var builder embed.FS

// user runs the program of an image: a number without an account.
const user = "65532:65532"

// recipe says what an image consists of.
type recipe struct {
	name      string // runner, of vmop/runner
	title     string
	packages  []string               // Debian's
	kept      string                 // how the name of the layer of packages begins that is kept
	want      func(name string) bool // which of their files
	linked    bool                   // whether these expect /lib to be a link to /usr/lib
	program   string                 // cmd/…, the entry point
	others    []string               // programs beside it, for other pods
	arguments []string               // if the container has none of its own
}

// allRecipes returns all. with are further packages of the runner's.
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

// systemLayer returns the file of the layer of Debian's packages. It is kept under a
// name that tells what is in it: the packages, and who put them together.
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

// writeSystem writes the layer of Debian's packages. It has no version and no
// date of ours: it is the same until a package changes.
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
		used := r.linked // of the manager's packages only what has files in the image
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

// writeOwnLayer writes the layer of what is ours. The programs are built into dir.
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

// folder is where our programs are in an image.
const folder = "usr/local/bin/"

// programPath is where the program is in the image.
func (r recipe) programPath() string { return folder + r.program }

// moduleRoot returns the folder of the project.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "vmop").Output()
	if err != nil {
		return "", fmt.Errorf("find the project's folder: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
