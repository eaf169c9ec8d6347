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

// findDevice returns the number of a character device from sysfs. A device in sysfs has a driver that opens it. A node
// in /dev does not guarantee that: udev creates some nodes for devices with a driver that is loaded on first use,
// if it can be loaded. Reading sysfs requires no rights, whereas a container must be privileged to open a device.
func findDevice(sys, path string) (uint64, error) {
	name := strings.TrimPrefix(path, "/dev/")
	files, err := filepath.Glob(filepath.Join(sys, "class", "*", filepath.Base(name), "uevent"))
	if err != nil {
		return 0, fmt.Errorf("look for %s: %w", path, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has just disappeared
		}
		number, is := numberOf(string(text), name)
		if class := filepath.Base(filepath.Dir(filepath.Dir(file))); is && class != "block" {
			return number, nil
		}
	}
	return 0, fmt.Errorf("no driver offers %s: its module is not loaded, or there is no such device", path)
}

// numberOf returns the device number in a uevent file of sysfs, if the file names the device.
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

// makeNode creates a character device that everyone with access to its path may use, if it does not exist. The
// node outlives this program, because pods do: the kubelet passes it to restarted containers.
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
	// Chmod adds the permissions that the umask has removed.
	if err := errors.Join(os.Chmod(made, 0o666), os.Rename(made, path)); err != nil {
		return fmt.Errorf("make a device for pods: %w", err)
	}
	return nil
}
