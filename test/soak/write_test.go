package soak_test

import (
	"errors"
	"fmt"
	"os"
)

// manner is a way to change a file of the configuration.
type manner func(m *soakVM, name, text string) error

// manners returns the ways of an editor that writes into the file, of an editor that replaces it, and of a kubelet that
// mounts a ConfigMap.
func manners() []manner {
	return []manner{
		func(m *soakVM, name, text string) error { return os.WriteFile(m.path(name), []byte(text), 0o600) },
		func(m *soakVM, name, text string) error {
			fresh := m.path(name + "~")
			return errors.Join(os.WriteFile(fresh, []byte(text), 0o600), os.Rename(fresh, m.path(name)))
		},
		mount,
	}
}

// mount makes name a link into ..data-NAME, which is a link to a new folder each time. Both links change in one step.
func mount(m *soakVM, name, text string) error {
	folder, data, fresh := fmt.Sprintf("..%s-%d", name, m.edits), "..data-"+name, m.path(".fresh")
	before, _ := os.Readlink(m.path(data)) // "" the first time
	err := errors.Join(
		os.Mkdir(m.path(folder), 0o700),
		os.WriteFile(m.path(folder, name), []byte(text), 0o600),
		os.Symlink(folder, fresh), os.Rename(fresh, m.path(data)),
		os.Symlink(data+"/"+name, fresh), os.Rename(fresh, m.path(name)),
	)
	if err == nil && before != "" && before != folder {
		err = os.RemoveAll(m.path(before))
	}
	return err
}
