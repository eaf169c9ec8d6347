package login

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"vmop/regular"
)

// largestUsers is how large a file of users may be, in bytes.
const largestUsers = 1 << 20

// parseUsers reads users from the lines of a file: name:hash, or name:hash:full name, as htpasswd
// -B writes them. Empty lines and those that begin with # are ignored.
func parseUsers(data []byte) ([]User, error) {
	var users []User
	seen := map[string]bool{}
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, rest, _ := strings.Cut(line, ":")
		hash, full, _ := strings.Cut(rest, ":")
		err := CheckName(name)
		if err == nil {
			err = CheckHash(hash)
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("line %d: %w (name:hash, as htpasswd -nB NAME prints it)", number, err)
		case seen[name]:
			return nil, fmt.Errorf("line %d: the user %q is there twice", number, name)
		}
		seen[name] = true
		users = append(users, User{Name: name, FullName: shown(full), Hash: hash})
	}
	return users, nil
}

// A usersFile is what was read of Config.UsersFile.
type usersFile struct {
	path  string
	data  []byte
	users []User
	fault string // logged last
}

// readUsers reads the file again, and reports whether there are other users. What can't be read
// is logged once, and changes nothing.
func (s *Service) readUsers() (changed bool) {
	f := &s.file
	path := s.base.UsersFile
	if path != f.path {
		*f = usersFile{path: path}
		changed = true
	}
	if path == "" {
		return changed
	}
	data, err := regular.ReadFile(path, largestUsers)
	if err == nil && f.data != nil && bytes.Equal(data, f.data) {
		return changed
	}
	var users []User
	if err == nil {
		users, err = parseUsers(data)
	}
	if err != nil {
		if text := err.Error(); text != f.fault {
			f.fault = text
			if f.data == nil && errors.Is(err, fs.ErrNotExist) { // such as a Secret that is optional
				s.opts.Log.Info("there is no file of users yet", "file", path)
				return changed
			}
			s.opts.Log.Error("the file of users is not used, those read before remain", "file", path, "err", err)
		}
		return changed
	}
	f.data, f.users, f.fault = data, users, ""
	return true
}
