package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The architectures of the images, with Go's and with Debian's names.
const (
	amd64 = "amd64"
	arm64 = "arm64"
)

// current is how long downloaded package lists are valid.
const current = 24 * time.Hour

//go:embed debian.sources
var sources []byte

//go:embed packages
var packageList string

//go:embed packages.arm64
var packageListARM string

// apt finds packages as if the machine had no packages installed. It keeps all its state in its own folder, so packages
// on this machine have no effect.
type apt struct{ dir, architecture string }

// deb is a package file.
type deb struct {
	file   string // NAME_VERSION_ARCHITECTURE.deb
	sha256 string
}

// prepareFolders creates the folders that apt needs.
func (a apt) prepareFolders() error {
	for _, sub := range []string{"lists/partial", "archives/partial", "none/partial", "state", "layers"} {
		if err := os.MkdirAll(filepath.Join(a.dir, sub), 0o755); err != nil {
			return fmt.Errorf("folder for packages: %w", err)
		}
	}
	for name, content := range map[string][]byte{"debian.sources": sources, "status": nil} {
		if err := os.WriteFile(filepath.Join(a.dir, name), content, 0o644); err != nil {
			return fmt.Errorf("folder for packages: %w", err)
		}
	}
	return nil
}

// lockCache blocks other builds until unlock is called.
func (a apt) lockCache() (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(a.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the folder for packages: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// runAptGet runs apt-get and returns its output.
func (a apt) runAptGet(ctx context.Context, args ...string) (string, error) {
	options := []string{
		"-qq", "-y", "-o", "Dir::Etc::SourceList=" + filepath.Join(a.dir, "debian.sources"), "-o",
		"Dir::Etc::SourceParts=-",
		"-o", "Dir::State=" + filepath.Join(a.dir, "state"), "-o", "Dir::State::Lists=" + filepath.Join(a.dir, "lists"),
		"-o", "Dir::State::status=" + filepath.Join(a.dir, "status"), "-o", "Dir::Cache=" + a.dir,
		"-o", "APT::Architecture=" + a.architecture, "-o", "APT::Architectures=" + a.architecture, "-o",
		"APT::Install-Recommends=false",
		"-o", "APT::Sandbox::User=root", // another user could not write to this user's cache folder
		"-o", "Acquire::Languages=none", "-o", "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
		"-o", "Acquire::Retries=3",
		// Accept only packages with a valid signature of Debian's keys, even if this machine's apt.conf allows more.
		"-o", "Acquire::AllowInsecureRepositories=false", "-o", "Acquire::AllowDowngradeToInsecureRepositories=false",
		"-o", "Acquire::AllowWeakRepositories=false", "-o", "APT::Get::AllowUnauthenticated=false",
		"-o", "Acquire::Check-Valid-Until=true",
	}
	cmd := exec.CommandContext(ctx, "apt-get", append(options, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("apt-get %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// updateLists downloads the package lists, unless that was done today from the same sources. With always it downloads
// them in any case.
func (a apt) updateLists(ctx context.Context, always bool) error {
	stamp := filepath.Join(a.dir, "updated")
	info, err := os.Stat(stamp)
	if err == nil && !always && time.Since(info.ModTime()) < current {
		if known, err := os.ReadFile(stamp); err == nil && bytes.Equal(known, sources) {
			return nil
		}
	}
	if _, err := a.runAptGet(ctx, "update"); err != nil {
		return err
	}
	if err := os.WriteFile(stamp, sources, 0o644); err != nil {
		return fmt.Errorf("note which packages there are: %w", err)
	}
	return nil
}

// downloadPackages downloads packages and their dependencies, and returns them sorted by name.
func (a apt) downloadPackages(ctx context.Context, names []string) ([]deb, error) {
	if _, err := a.runAptGet(ctx, append([]string{"install", "--download-only"}, names...)...); err != nil {
		return nil, err
	}
	// apt prints only what it would download, so it must not find the packages in its folder.
	text, err := a.runAptGet(ctx, append([]string{
		"install", "--print-uris", "-o", "Acquire::ForceHash=SHA256",
		"-o", "Dir::Cache::archives=" + filepath.Join(a.dir, "none"),
	}, names...)...)
	if err != nil {
		return nil, err
	}
	debs, err := parseURIs(text)
	if err != nil {
		return nil, err
	}
	for _, d := range debs {
		if err := a.verifyPackage(d); err != nil {
			return nil, err
		}
	}
	return debs, nil
}

// parseURIs reads lines like
//
//	'http://…' swtpm_0.7.1-1.3_amd64.deb 25132 SHA256:530bc6…
func parseURIs(text string) ([]deb, error) {
	var debs []deb
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		sum, ok := strings.CutPrefix(words[len(words)-1], "SHA256:")
		if len(words) != 4 || !ok || filepath.Base(words[1]) != words[1] {
			return nil,
				fmt.Errorf("list packages: apt-get prints %q, but must print an address, a file name, its size and SHA256 sum",
					strings.TrimSpace(line))
		}
		debs = append(debs, deb{file: words[1], sha256: sum})
	}
	slices.SortFunc(debs, func(x, y deb) int { return strings.Compare(x.file, y.file) })
	return debs, nil
}

func (a apt) archivePath(d deb) string { return filepath.Join(a.dir, "archives", d.file) }

// verifyPackage compares a package file with its checksum. Apt verified the file when it downloaded it, which may have
// been long ago.
func (a apt) verifyPackage(d deb) error {
	f, err := os.Open(a.archivePath(d))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("package %s: apt-get has not downloaded it", d.file)
	}
	if err != nil {
		return fmt.Errorf("package %s: %w", d.file, err)
	}
	defer func() { _ = f.Close() }() // opened for reading only
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return fmt.Errorf("package %s: %w", d.file, err)
	}
	if found := hex.EncodeToString(hash.Sum(nil)); found != d.sha256 {
		return errors.Join(fmt.Errorf("package %s: its SHA256 sum is %s, but must be %s; the next try downloads it again",
			d.file, found, d.sha256), os.Remove(a.archivePath(d)))
	}
	return nil
}

// statusEntry returns a package's description in the format of dpkg's status file, which vulnerability scanners read to
// find the packages of an image. It adds the checksum of the package file, for the list of components.
func (a apt) statusEntry(ctx context.Context, d deb) (string, error) {
	out, err := exec.CommandContext(ctx, "dpkg-deb", "--field", a.archivePath(d)).Output()
	if err != nil {
		return "", fmt.Errorf("package %s: %w", d.file, err)
	}
	name, rest, _ := strings.Cut(string(out), "\n")
	return name + "\nStatus: install ok installed\nSHA256: " + d.sha256 + "\n" + rest + "\n", nil
}

// readArchive calls take with the tar archive of a package's files.
func (a apt) readArchive(ctx context.Context, d deb, take func(io.Reader) error) error {
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", a.archivePath(d))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("unpack %s: %w", d.file, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("unpack %s: %w", d.file, err)
	}
	err = take(pipe)
	if err == nil {
		_, err = io.Copy(io.Discard, pipe) // the padding of the archive
	}
	_ = pipe.Close() // after an error dpkg-deb may still be writing
	if ended := cmd.Wait(); err == nil && ended != nil {
		err = fmt.Errorf("%w: %s", ended, strings.TrimSpace(stderr.String()))
	}
	if err != nil {
		return fmt.Errorf("unpack %s: %w", d.file, err)
	}
	return nil
}
