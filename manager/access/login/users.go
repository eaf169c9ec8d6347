package login

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"vmop/internal/readfile"
)

// largestUsers is the maximum size of a file of users, in bytes.
const largestUsers = 1 << 20

// parseUsers reads users from the lines of a file: name:hash, or name:hash:full name, the format of htpasswd -B.
// It ignores empty lines and lines that start with #.
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
			return nil, fmt.Errorf("line %d: the user %q exists twice", number, name)
		}
		seen[name] = true
		users = append(users, User{Name: name, FullName: nameForLog(full), Hash: hash})
	}
	return users, nil
}

// usersFile is the contents of Config.UsersFile.
type usersFile struct {
	path  string
	data  []byte
	users []User
	fault string // the error logged last
}

// readUsers reads the file again and reports whether the users have changed. It logs an error once and keeps the
// previous users.
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
	data, err := readfile.ReadFile(path, largestUsers)
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
			if f.data == nil && errors.Is(err, fs.ErrNotExist) { // such as an optional Secret
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
