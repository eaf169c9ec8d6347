package vmspec

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

// ResolveResources returns a copy with each drive's resource replaced: by File for a regular file, by Device for
// a block device. stat returns the mode of the file at a path and follows links, like os.Stat. A missing
// resource, or a resource of another kind, is an error and stays unchanged.
func ResolveResources(s Spec, stat func(path string) (fs.FileMode, error)) (Spec, []Fault) {
	s = s.cloneSpec()
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
			c.addFault(path, "%s does not exist", quoteClipped(d.Resource))
		case err != nil:
			c.addFault(path, "%v", err)
		case mode.IsRegular():
			d.File, d.Resource = d.Resource, ""
		case mode&fs.ModeDevice != 0 && mode&fs.ModeCharDevice == 0:
			d.Device, d.Resource = d.Resource, ""
		default:
			c.addFault(path, "%s is neither a file nor a block device", quoteClipped(d.Resource))
		}
	}
	return s, c.faults
}

// MissingFiles returns an error for each of these problems with files of the host in the vm section:
//
//   - The file is missing, or is of the wrong kind.
//   - The file is used for two disks.
//   - The folder of a file that the runner would create is missing.
//
// stat is as for ResolveResources. URLs are not checked.
func MissingFiles(s Spec, stat func(path string) (fs.FileMode, error)) []Fault {
	c := &checker{spec: &s}
	first := map[string]string{}
	for i, d := range s.Drives {
		path, hint := fmt.Sprintf("vm.drives[%d].file", i), ""
		if d.Type == DriveRaw && d.Format == "raw" {
			hint = "with size, such as size: 20 GiB, it is created"
		}
		if _, err := stat(d.File); d.isMade() && errors.Is(err, fs.ErrNotExist) {
			c.checkFolder(path, d.File, stat)
		} else {
			c.checkPresent(path, d.File, hint, stat)
		}
		c.checkPresent(fmt.Sprintf("vm.drives[%d].device", i), d.Device, "", stat)
		if d.File == "" || d.Type != DriveRaw || d.ReadOnly {
			continue
		}
		if other := first[d.File]; other != "" {
			const hint = "each disk that the guest writes to needs a separate image"
			c.addFault(path, "%s is %s, too", quoteClipped(d.File), other).withHint(hint)
		} else {
			first[d.File] = path
		}
	}
	if s.Kernel != nil {
		c.checkPresent("vm.kernel.image", s.Kernel.Image, "", stat)
		c.checkPresent("vm.kernel.initrd", s.Kernel.Initrd, "", stat)
	}
	if s := s.SerialConsole; s != nil && s.Log != "" && (s.Enabled == nil || *s.Enabled) {
		c.checkFolder("vm.serialConsole.log", s.Log, stat)
	}
	return c.faults
}

// checkPresent requires that a file exists and can contain data.
func (c *checker) checkPresent(path, file, hint string, stat func(path string) (fs.FileMode, error)) {
	if file == "" || strings.Contains(file, "://") {
		return
	}
	mode, err := stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.addFault(path, "%s does not exist", quoteClipped(file)).withHint("%s", tildeHint(file, hint))
	case err != nil:
		c.addFault(path, "%s: %v", quoteClipped(file), err)
	case mode.IsDir():
		c.addFault(path, "%s is a directory", quoteClipped(file)).withHint("use a file in it")
	case mode&fs.ModeCharDevice != 0:
		c.addFault(path, "%s is a device that holds no data",
			quoteClipped(file)).withHint("use a file or a block device")
	}
}

// checkFolder requires that the folder of a new file exists.
func (c *checker) checkFolder(path, file string, stat func(path string) (fs.FileMode, error)) {
	folder := filepath.Dir(file)
	if _, err := stat(folder); errors.Is(err, fs.ErrNotExist) {
		c.addFault(path, "the directory %s does not exist", quoteClipped(folder)).withHint("%s",
			tildeHint(file, "create it"))
	}
}

// tildeHint returns a hint for a missing file.
func tildeHint(file, otherwise string) string {
	if strings.Contains(file, "/~/") {
		return "~ has no meaning here; write the whole path"
	}
	return otherwise
}
