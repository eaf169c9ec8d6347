package config

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"vmop/internal/readfile"
)

// The files next to the configuration. In a cluster a Secret provides them.
const (
	passwordFile = "display-password"
	expiryFile   = "password-expiry"
)

// DisplaySecretVariable of the environment contains the name of the Secret that provides these files. Without it
// they may be missing.
const DisplaySecretVariable = "DISPLAY_SECRET"

// largestSecret bounds these files. longestPassword is the longest password that SPICE accepts
// (SPICE_MAX_PASSWORD_LENGTH in spice-protocol's enums.h). Both are in bytes.
const (
	largestSecret   = 4096
	longestPassword = 60
)

// A Password hides its text when it is printed. Its zero value is empty.
type Password struct {
	// text is a pointer because fmt prints the fields of a surrounding struct without calling String.
	text *string
}

// NewPassword returns text as a password.
func NewPassword(text string) Password { return Password{&text} }

// Reveal returns the password itself.
func (p Password) Reveal() string {
	if p.text == nil {
		return ""
	}
	return *p.text
}

// Equal reports whether two passwords are the same.
func (p Password) Equal(other Password) bool { return p.Reveal() == other.Reveal() }

const hidden = "(hidden)"

// String returns a text that stands for any password.
func (p Password) String() string { return hidden }

// GoString is String for %#v.
func (p Password) GoString() string { return hidden }

// LogValue is String for package slog.
func (p Password) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText is String for JSON and other encodings.
func (p Password) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// ReadDisplayPassword reads the file display-password in a directory, without the line break at its end. It
// returns false if there is no such file. It refuses an empty password, a password of more than 60 bytes, and a
// password with control characters; the error doesn't quote it.
func ReadDisplayPassword(dir string) (Password, bool, error) {
	text, found, err := readSecret(filepath.Join(dir, passwordFile))
	text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	switch {
	case err != nil || !found:
		return Password{}, false, err
	case text == "":
		return Password{}, false, fmt.Errorf("read %s: the password is empty; remove the file to have none",
			filepath.Join(dir, passwordFile))
	case len(text) > longestPassword:
		return Password{}, false, fmt.Errorf("read %s: the password has %d bytes, and SPICE takes at most %d",
			filepath.Join(dir, passwordFile), len(text), longestPassword)
	case strings.IndexFunc(text, unicode.IsControl) >= 0:
		return Password{}, false, fmt.Errorf("read %s: the password holds a line break or another control character",
			filepath.Join(dir, passwordFile))
	}
	return NewPassword(text), true, nil
}

// ReadPasswordExpiry reads the file password-expiry in a directory. It contains when the display's password
// expires, in the syntax of QEMU's command expire_password
// (https://www.qemu.org/docs/master/interop/qemu-qmp-ref.html): "now", "never", "+n" in n seconds, or "n",
// seconds since 1970. It returns false if there is no such file. QEMU itself accepts anything, so
// ReadPasswordExpiry returns an error for all other texts.
func ReadPasswordExpiry(dir string) (string, bool, error) {
	file := filepath.Join(dir, expiryFile)
	text, found, err := readSecret(file)
	if err != nil || !found {
		return "", false, err
	}
	text = strings.TrimSpace(text)
	if !isExpiry(text) {
		return "", false,
			fmt.Errorf("read %s: %s is not a time of expiry; use now, never, +n (in n seconds) or n (seconds since 1970)",
				file, quoteWord(text))
	}
	return text, true, nil
}

func isExpiry(text string) bool {
	if text == "now" || text == "never" {
		return true
	}
	digits := strings.TrimPrefix(text, "+")
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return false
	}
	_, err := strconv.ParseInt(digits, 10, 64)
	return err == nil
}

func readSecret(file string) (text string, found bool, err error) {
	data, err := readfile.ReadFile(file, largestSecret)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", false, nil
	case err != nil:
		return "", false, fmt.Errorf("read %s: %w", file, errors.Unwrap(err))
	}
	return string(data), true, nil
}
