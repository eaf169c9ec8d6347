package vmspec

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

// ResolveResources returns a copy in which each drive's resource has become
// what it is: File if it is a regular file, Device if it is a block device.
// stat returns the mode of what a path leads to, links followed, as os.Stat
// does. What is missing or neither of the two is a fault, and stays.
func ResolveResources(s Spec, stat func(path string) (fs.FileMode, error)) (Spec, []Fault) {
	s = s.clone()
	c := &checker{spec: &s}
	for i := range s.Drives {
		d := &s.Drives[i]
		if d.Resource == "" {
			continue
		}
		path := fmt.Sprintf("vm.drives[%d].resource", i)
		mode, err := stat(d.Resource)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			c.add(path, "%s does not exist", quote(d.Resource))
		case err != nil:
			c.add(path, "%v", err)
		case mode.IsRegular():
			d.File, d.Resource = d.Resource, ""
		case mode&fs.ModeDevice != 0 && mode&fs.ModeCharDevice == 0:
			d.Device, d.Resource = d.Resource, ""
		default:
			c.add(path, "%s is neither a file nor a block device", quote(d.Resource))
		}
	}
	return s, c.faults
}

// MissingFiles returns a fault for every file of the host that the vm section
// names and that is not there, can't hold what it is to, or is a disk twice, and for the
// missing folder of one that is to be made. stat is as for ResolveResources; URLs are not
// looked at.
func MissingFiles(s Spec, stat func(path string) (fs.FileMode, error)) []Fault {
	c := &checker{spec: &s}
	first := map[string]string{}
	for i, d := range s.Drives {
		path, hint := fmt.Sprintf("vm.drives[%d].file", i), ""
		if d.Type == DriveRaw && d.Format == "raw" {
			hint = "with size, such as size: 20 GiB, it is made"
		}
		if _, err := stat(d.File); d.isMade() && errors.Is(err, fs.ErrNotExist) {
			c.folder(path, d.File, stat)
		} else {
			c.present(path, d.File, hint, stat)
		}
		c.present(fmt.Sprintf("vm.drives[%d].device", i), d.Device, "", stat)
		if d.File == "" || d.Type != DriveRaw || d.ReadOnly {
			continue
		}
		if other := first[d.File]; other != "" {
			const hint = "each disk that the guest writes to needs an image of its own"
			c.add(path, "%s is %s, too", quote(d.File), other).hint(hint)
		} else {
			first[d.File] = path
		}
	}
	if s.Kernel != nil {
		c.present("vm.kernel.image", s.Kernel.Image, "", stat)
		c.present("vm.kernel.initrd", s.Kernel.Initrd, "", stat)
	}
	if s := s.SerialConsole; s != nil && s.Log != "" && (s.Enabled == nil || *s.Enabled) {
		c.folder("vm.serialConsole.log", s.Log, stat)
	}
	return c.faults
}

// present wants a file to be there, and to hold data.
func (c *checker) present(path, file, hint string, stat func(path string) (fs.FileMode, error)) {
	if file == "" || strings.Contains(file, "://") {
		return
	}
	mode, err := stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.add(path, "%s does not exist", quote(file)).hint("%s", tilde(file, hint))
	case err != nil:
		c.add(path, "%s: %v", quote(file), err)
	case mode.IsDir():
		c.add(path, "%s is a directory", quote(file)).hint("want a file in it")
	case mode&fs.ModeCharDevice != 0:
		c.add(path, "%s is a device that holds no data", quote(file)).hint("want a file or a block device")
	}
}

// folder wants the folder of a file that is to be made.
func (c *checker) folder(path, file string, stat func(path string) (fs.FileMode, error)) {
	folder := filepath.Dir(file)
	if _, err := stat(folder); errors.Is(err, fs.ErrNotExist) {
		c.add(path, "the directory %s does not exist", quote(folder)).hint("%s", tilde(file, "create it"))
	}
}

// tilde returns a hint for a path that does not exist.
func tilde(file, otherwise string) string {
	if strings.Contains(file, "/~/") {
		return "~ has no meaning here; write the whole path"
	}
	return otherwise
}
