package inventory

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Grant lets the user of a VM's service read the VM's configuration in a folder, and makes the user the owner of
// root's files in the data directory. The user is the owner of the data directory, as set by systemd
// (DynamicUser). If the owner is root, Grant does nothing.
//
// See docs/decisions/0179-a-user-for-each-service.md.
func Grant(configFolder, name, dataDir string) error {
	if err := checkName(name); err != nil {
		return err
	}
	info, err := os.Stat(dataDir)
	if err != nil {
		return fmt.Errorf("cannot find the user of the service: %w; start the VM with systemctl start vmrunner@%s", err, name)
	}
	user, ok := info.Sys().(*syscall.Stat_t)
	if !ok || user.Uid == 0 {
		return nil
	}
	if err := letRead(configFolder, name, int(user.Gid)); err != nil {
		return fmt.Errorf("cannot let the service read its configuration: %w", err)
	}
	if err := giveAway(dataDir, int(user.Uid), int(user.Gid)); err != nil {
		return fmt.Errorf("cannot give the service its files: %w", err)
	}
	return nil
}

// letRead lets a group read the configuration: NAME.yaml, or the folder NAME. It lets everybody traverse the
// configuration's parent folder.
func letRead(folder, name string, group int) error {
	root, err := os.OpenRoot(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	const passed, folderRead, fileRead = 0o001, 0o050, 0o040
	if err := grantAccess(root, ".", -1, passed); err != nil {
		return err
	}
	if err := grantAccess(root, name+suffix, group, fileRead); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fs.WalkDir(root.FS(), name, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case path == name && errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case entry.IsDir():
			return grantAccess(root, path, group, folderRead)
		case entry.Type().IsRegular():
			return grantAccess(root, path, group, fileRead)
		}
		return nil
	})
}

// grantAccess adds permissions to a file or folder, and sets its group unless group is -1.
func grantAccess(root *os.Root, path string, group int, more fs.FileMode) error {
	file, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return errors.Join(file.Chown(-1, group), file.Chmod(info.Mode().Perm()|more))
}

// giveAway makes a user the owner of root's files in a folder. Programs of that user may change the folder at the
// same time, so giveAway never follows paths out of the folder, and skips files with a second link.
func giveAway(folder string, user, group int) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() && !entry.Type().IsRegular() {
			return ignoreGone(err)
		}
		file, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
		if err != nil {
			return ignoreGone(err)
		}
		defer file.Close()
		info, err := file.Stat()
		if err != nil {
			return err
		}
		its, ok := info.Sys().(*syscall.Stat_t)
		if !ok || its.Uid != 0 || !info.IsDir() && (!info.Mode().IsRegular() || its.Nlink != 1) {
			return nil
		}
		return file.Chown(user, group)
	})
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
