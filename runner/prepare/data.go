package prepare

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"vmop/cloudinit"
	"vmop/internal/readfile"
	"vmop/runner/config"
	"vmop/vmspec"
)

// A DataError lists unusable files that contain the guest's configuration data.
type DataError struct {
	located error   // with the places in the configuration
	causes  []error // errors of the files
}

func (e *DataError) Error() string { return e.located.Error() }

// Unwrap returns the errors of the configuration and of the files.
func (e *DataError) Unwrap() []error { return append([]error{e.located}, e.causes...) }

// readData reads the files with the guest's configuration data, and stores digests of all data.
func (vm *VM) readData() error {
	var faults []vmspec.Fault
	var causes []error
	if c := vm.Config.CloudInit; c != nil {
		read, err := c.Read(vm.configDir())
		var wrong *cloudinit.KeyError
		for _, err := range config.Split(err) {
			if errors.As(err, &wrong) {
				faults, causes = append(faults, vmspec.Fault{
					Path: vm.Config.DataPath() + "." + wrong.Key, Message: wrong.Problem,
				}), append(causes, err)
			}
		}
		if err == nil && (c.UserDataFile != "" || c.NetworkConfigFile != "") {
			if err := vm.renderSeed(read); err != nil {
				return err
			}
		}
	}
	if s := vm.Config.Sysprep; s != nil {
		var err error
		if vm.Answers, err = readAnswers(vmspec.Within(vm.configDir(), s.Directory)); err != nil {
			const hint = "an answer file of Windows Setup, " + unattend + ", " + autounattend + " or both"
			faults = append(faults, vmspec.Fault{Path: "sysprep.directory", Message: err.Error(), Hint: hint})
			causes = append(causes, err)
		}
	}
	if faults != nil {
		return &DataError{vm.Config.Locate(faults), causes}
	}
	vm.Facts.CloudInit, vm.Facts.Sysprep = vm.CloudInit(), filesDigest(vm.Answers)
	return nil
}

// renderSeed creates the seed from a configuration of cloud-init.
func (vm *VM) renderSeed(c *cloudinit.Config) error {
	seed, err := c.Seed(vm.Config.VM.Name)
	if err != nil {
		return err
	}
	vm.Seed = &seed
	return nil
}

// CloudInit returns a digest of the data that the guest gets from cloud-init; empty without data.
func (vm *VM) CloudInit() string {
	if vm.Facts.CloudInit != "" || vm.Seed == nil { // a file may have changed since it was read
		return vm.Facts.CloudInit
	}
	return filesDigest(vm.Seed.Files())
}

func filesDigest(files []cloudinit.File) string {
	if files == nil {
		return ""
	}
	hash := sha256.New()
	for _, f := range files {
		fmt.Fprintf(hash, "%s %d\n%s", f.Name, len(f.Content), f.Content)
	}
	return fmt.Sprintf("%.8x", hash.Sum(nil))
}

// keepData takes over the digests of a running VM if files that it has read are missing, provided that the new
// configuration names the same files: users may remove them after use. It returns all other errors.
func (vm *VM) keepData(running *VM, err error) error {
	if err == nil || !errors.Is(err, fs.ErrNotExist) || !sameFiles(vm.Config, running.Config) {
		return err
	}
	vm.Facts.CloudInit, vm.Facts.Sysprep = running.CloudInit(), running.Facts.Sysprep
	return nil
}

func sameFiles(a, b *config.Config) bool {
	if (a.CloudInit == nil) != (b.CloudInit == nil) || (a.Sysprep == nil) != (b.Sysprep == nil) {
		return false
	}
	return (a.Sysprep == nil || *a.Sysprep == *b.Sysprep) &&
		(a.CloudInit == nil || a.CloudInit.UserDataFile == b.CloudInit.UserDataFile &&
			a.CloudInit.NetworkConfigFile == b.CloudInit.NetworkConfigFile)
}

// FilesOfData returns the paths of the files with the guest's configuration data.
func (vm *VM) FilesOfData() (paths []string) {
	add := func(name string) {
		if name != "" {
			paths = append(paths, vmspec.Within(vm.configDir(), name))
		}
	}
	if c := vm.Config.CloudInit; c != nil {
		add(c.UserDataFile)
		add(c.NetworkConfigFile)
	}
	if s := vm.Config.Sysprep; s != nil {
		add(filepath.Join(s.Directory, unattend))
		add(filepath.Join(s.Directory, autounattend))
	}
	return paths
}

// Names of answer files in a directory.
const (
	unattend     = "unattend.xml"
	autounattend = "autounattend.xml"
)

// readAnswers returns the answer files that Windows Setup gets from a directory. It returns both names: Setup
// looks for Autounattend.xml during the installation, and for Unattend.xml when Windows starts after sysprep has
// generalized it. A missing file gets the content of the other.
//
// See docs/decisions/0095-answer-files.md.
func readAnswers(directory string) ([]cloudinit.File, error) {
	var contents [2][]byte
	for i, name := range []string{autounattend, unattend} {
		content, err := readfile.ReadFile(filepath.Join(directory, name), cloudinit.MaxData)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case len(bytes.TrimSpace(content)) == 0:
			return nil, fmt.Errorf("%s is empty", filepath.Join(directory, name))
		default:
			contents[i] = content
		}
	}
	switch {
	case contents[0] == nil && contents[1] == nil:
		return nil, fmt.Errorf("%s has neither %s nor %s: %w", directory, unattend, autounattend, fs.ErrNotExist)
	case contents[0] == nil:
		contents[0] = contents[1]
	case contents[1] == nil:
		contents[1] = contents[0]
	}
	return []cloudinit.File{
		{Name: "Autounattend.xml", Content: contents[0]}, {Name: "Unattend.xml", Content: contents[1]},
	}, nil
}
