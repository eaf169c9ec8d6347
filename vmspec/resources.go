package vmspec

import (
	"errors"
	"fmt"
	"io/fs"
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
// names and that is not there. stat is as for ResolveResources; URLs are not
// looked at.
func MissingFiles(s Spec, stat func(path string) (fs.FileMode, error)) []Fault {
	c := &checker{spec: &s}
	check := func(path, file string) {
		if file == "" || strings.Contains(file, "://") {
			return
		}
		if _, err := stat(file); errors.Is(err, fs.ErrNotExist) {
			c.add(path, "%s does not exist", quote(file))
		} else if err != nil {
			c.add(path, "%s: %v", quote(file), err)
		}
	}
	for i, d := range s.Drives {
		check(fmt.Sprintf("vm.drives[%d].file", i), d.File)
		check(fmt.Sprintf("vm.drives[%d].device", i), d.Device)
	}
	if s.Kernel != nil {
		check("vm.kernel.image", s.Kernel.Image)
		check("vm.kernel.initrd", s.Kernel.Initrd)
	}
	return c.faults
}
