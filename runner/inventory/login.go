package inventory

import (
	"os"
	"path/filepath"
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

// NewKey returns the file for the private key for guests of users without their own key, and creates its folder.
func (inv *Inventory) NewKey(system bool) (file string, err error) {
	place, err := inv.Place(system)
	if err != nil {
		return "", err
	}
	return filepath.Join(place.Folder, keyFile), place.makeFolder()
}

// Key returns the file with the private key of NewKey, if it was created, for the VM's user; empty if there is none.
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
