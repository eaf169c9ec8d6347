package devices

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// find returns the number of a character device, as the kernel has it. A device that has one
// there has a driver that opens it, unlike a node in /dev: udev makes some of devices whose
// driver would be loaded upon their use, if it can be. It needs no right, while to open a
// device a container has to be privileged.
func find(sys, path string) (uint64, error) {
	name := strings.TrimPrefix(path, "/dev/")
	files, err := filepath.Glob(filepath.Join(sys, "class", "*", filepath.Base(name), "uevent"))
	if err != nil {
		return 0, fmt.Errorf("look for %s: %w", path, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has just gone
		}
		number, is := numberOf(string(text), name)
		if class := filepath.Base(filepath.Dir(filepath.Dir(file))); is && class != "block" {
			return number, nil
		}
	}
	return 0, fmt.Errorf("no driver offers %s: its module is not loaded, or there is no such device", path)
}

// numberOf reads what sysfs says of a device, if it has the name.
func numberOf(uevent, name string) (number uint64, is bool) {
	var major, minor uint64
	var errs [2]error
	for line := range strings.Lines(uevent) {
		switch key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "="); key {
		case "DEVNAME":
			is = value == name
		case "MAJOR":
			major, errs[0] = strconv.ParseUint(value, 10, 32)
		case "MINOR":
			minor, errs[1] = strconv.ParseUint(value, 10, 32)
		}
	}
	return unix.Mkdev(uint32(major), uint32(minor)), is && major > 0 && errors.Join(errs[:]...) == nil
}

// makeNode makes a character device that everyone may use who reaches it, unless there is
// one. It outlives this program, as pods do: the kubelet gives it to a container that it
// starts again.
func makeNode(path string, number uint64) error {
	const mode = unix.S_IFCHR | 0o666
	var now unix.Stat_t
	if err := unix.Lstat(path, &now); err == nil && now.Mode == mode && now.Rdev == number {
		return nil
	}
	made := path + ".new"
	if err := os.Remove(made); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("make a device for pods: %w", err)
	}
	if err := unix.Mknod(made, mode, int(number)); err != nil {
		return fmt.Errorf("make a device for pods: %w", &fs.PathError{Op: "mknod", Path: made, Err: err})
	}
	// The umask has taken from the mode.
	if err := errors.Join(os.Chmod(made, 0o666), os.Rename(made, path)); err != nil {
		return fmt.Errorf("make a device for pods: %w", err)
	}
	return nil
}
