package inventory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Login returns the user that cloud-init creates in the guest; empty if the configuration contains no user.
func (vm *VM) Login() string {
	if vm.Config == nil {
		return ""
	}
	return vm.Config.CloudInit.Login()
}

// keyFile is the private key for guests, next to the configurations. The public key has the suffix .pub.
const keyFile = "id_ed25519"

// MakeKey returns the file with the public key for guests of users without their own key. It creates the key if it
// doesn't exist.
func (inv *Inventory) MakeKey(ctx context.Context, system bool) (public string, err error) {
	place, err := inv.Place(system)
	if err != nil {
		return "", err
	}
	file := filepath.Join(place.Folder, keyFile)
	public = file + ".pub"
	if _, err := os.Stat(public); !errors.Is(err, fs.ErrNotExist) {
		return public, err
	}
	if err := place.makeFolder(); err != nil {
		return "", err
	}
	// ssh-keygen is part of the package of ssh. It doesn't overwrite a file.
	keygen := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "vmrunner", "-f", file)
	said, err := keygen.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return "", errors.New("ssh-keygen is not installed; on Debian: apt-get install openssh-client")
	}
	if err != nil {
		return "", fmt.Errorf("create an SSH key: %w %s", err, strings.TrimSpace(string(said)))
	}
	return public, nil
}

// Key returns the file with the private key that MakeKey created for the VM's user; empty if there is none.
func (vm *VM) Key() string {
	if vm.Place == nil {
		return ""
	}
	file := filepath.Join(vm.Place.Folder, keyFile)
	key, err := os.Open(file)
	if err != nil {
		return ""
	}
	_ = key.Close()
	return file
}

// PublicKeyFiles returns the files with the public SSH keys of the user with a home folder.
func PublicKeyFiles(home string) []string {
	if home == "" {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(home, ".ssh", "id_*.pub"))
	if err != nil {
		return nil // the name of the folder is a pattern
	}
	return files
}
