package prepare

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"vmop/cloudinit"
	"vmop/regular"
	"vmop/runner/config"
	"vmop/vmspec"
)

// A DataError says which files can't be used from which the guest is to configure itself.
type DataError struct {
	located error   // with the places in the configuration
	causes  []error // of the files
}

func (e *DataError) Error() string { return e.located.Error() }

// Unwrap returns the faults of the configuration, and the errors of the files.
func (e *DataError) Unwrap() []error { return append([]error{e.located}, e.causes...) }

// readData reads the files from which the guest configures itself, and notes digests of all it gets.
func (vm *VM) readData() error {
	var faults []vmspec.Fault
	var causes []error
	if c := vm.Config.CloudInit; c != nil {
		read, err := c.Read(vm.folder())
		var wrong *cloudinit.KeyError
		for _, err := range config.Split(err) {
			if errors.As(err, &wrong) {
				faults, causes = append(faults, vmspec.Fault{
					Path: vm.Config.DataPath() + "." + wrong.Key, Message: wrong.Problem,
				}), append(causes, err)
			}
		}
		if err == nil && (c.UserDataFile != "" || c.NetworkConfigFile != "") {
			if err := vm.render(read); err != nil {
				return err
			}
		}
	}
	if s := vm.Config.Sysprep; s != nil {
		var err error
		if vm.Answers, err = readAnswers(vmspec.Within(vm.folder(), s.Directory)); err != nil {
			const hint = "an answer file of Windows Setup, " + unattend + ", " + autounattend + " or both"
			faults = append(faults, vmspec.Fault{Path: "sysprep.directory", Message: err.Error(), Hint: hint})
			causes = append(causes, err)
		}
	}
	if faults != nil {
		return &DataError{vm.Config.Locate(faults), causes}
	}
	vm.Facts.CloudInit, vm.Facts.Sysprep = vm.CloudInit(), digest(vm.Answers)
	return nil
}

// render makes the seed of a configuration of cloud-init.
func (vm *VM) render(c *cloudinit.Config) error {
	seed, err := c.Seed(vm.Config.VM.Name)
	if err != nil {
		return err
	}
	vm.Seed = &seed
	return nil
}

// CloudInit returns a digest of the data that the guest gets by cloud-init; empty if there are none.
func (vm *VM) CloudInit() string {
	if vm.Facts.CloudInit != "" || vm.Seed == nil { // a file that was read may have changed
		return vm.Facts.CloudInit
	}
	return digest(vm.Seed.Files())
}

func digest(files []cloudinit.File) string {
	if files == nil {
		return ""
	}
	hash := sha256.New()
	for _, f := range files {
		fmt.Fprintf(hash, "%s %d\n%s", f.Name, len(f.Content), f.Content)
	}
	return fmt.Sprintf("%.8x", hash.Sum(nil))
}

// keepData takes over the digests of a running VM if files are gone that it has read, and which are to be the same:
// who has no more use for them may remove them. The error of others is returned.
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

// FilesOfData are the paths of the files from which the guest configures itself.
func (vm *VM) FilesOfData() (paths []string) {
	add := func(name string) {
		if name != "" {
			paths = append(paths, vmspec.Within(vm.folder(), name))
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

// Names of answer files, as a directory has them.
const (
	unattend     = "unattend.xml"
	autounattend = "autounattend.xml"
)

// readAnswers returns what Windows Setup gets of the answer files in a directory: both names, since it looks for
// Autounattend.xml when it installs, and for Unattend.xml when Windows starts that was generalized by sysprep. One
// that is missing has the content of the other.
//
// See docs/decisions/0095-answer-files.md.
func readAnswers(directory string) ([]cloudinit.File, error) {
	var contents [2][]byte
	for i, name := range []string{autounattend, unattend} {
		content, err := regular.ReadFile(filepath.Join(directory, name), cloudinit.MaxData)
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
