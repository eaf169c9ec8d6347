package config

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
)

// programDir is the name of a runner's directories below the user's directories.
const programDir = "vmrunner"

// uploadsDir is the name of the folder for uploads.
const uploadsDir = "vmrunner-media"

// Env contains the host's inputs for the directory rules.
type Env struct {
	// Getenv returns the value of an environment variable, or "".
	Getenv func(key string) string
	// UserName is the name of the user, HomeDir the user's home; either may be "".
	UserName, HomeDir string
	// Writable reports whether a directory exists and can be written to, or could be created. It changes nothing.
	Writable func(dir string) bool
}

// HostEnv returns the environment of this process.
func HostEnv() Env {
	env := Env{Getenv: os.Getenv, UserName: strconv.Itoa(os.Getuid()), Writable: isWritable}
	if u, err := user.Current(); err == nil {
		env.UserName, env.HomeDir = u.Username, u.HomeDir
	}
	if home := os.Getenv("HOME"); home != "" {
		env.HomeDir = home
	}
	return env
}

func isWritable(dir string) bool {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir):
		return isWritable(filepath.Dir(dir))
	case err != nil || !info.IsDir():
		return false
	}
	return isAccessible(dir)
}

// DataDirectory returns the directory for data that must survive a restart: the configured directory, otherwise
// $XDG_DATA_HOME/vmrunner/NAME, otherwise ~/.local/share/vmrunner/NAME. Variables that are not absolute count as unset
// (https://specifications.freedesktop.org/basedir-spec/latest/).
func (c *Config) DataDirectory(env Env) (string, error) {
	if c.DataDir != "" {
		return c.DataDir, nil
	}
	base := env.Getenv("XDG_DATA_HOME")
	if !filepath.IsAbs(base) {
		if !filepath.IsAbs(env.HomeDir) {
			return "", errors.New("find a data directory: neither XDG_DATA_HOME nor HOME is set; set dataDir in the configuration")
		}
		base = filepath.Join(env.HomeDir, ".local", "share")
	}
	return filepath.Join(base, programDir, c.VM.Name), nil
}

// UploadsDirectory returns the folder for files that users upload for several VMs. It is next to the folder with the
// default data directories, such as dataDir; "" if dataDir is another directory.
func UploadsDirectory(dataDir string) string {
	root := filepath.Dir(dataDir)
	if filepath.Base(root) != programDir {
		return ""
	}
	return filepath.Join(filepath.Dir(root), uploadsDir)
}

// Folder returns the folder for the configurations of named VMs: $XDG_CONFIG_HOME/vmrunner, otherwise
// ~/.config/vmrunner; empty if neither XDG_CONFIG_HOME nor HOME is set.
func (env Env) Folder() string {
	base := env.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(base) {
		if !filepath.IsAbs(env.HomeDir) {
			return ""
		}
		base = filepath.Join(env.HomeDir, ".config")
	}
	return filepath.Join(base, programDir)
}

// CacheDirectory returns the directory for data that can be fetched again: $XDG_CACHE_HOME/vmrunner, otherwise
// /var/cache/vmrunner for root, otherwise ~/.cache/vmrunner.
func (env Env) CacheDirectory() (string, error) {
	base := env.Getenv("XDG_CACHE_HOME")
	switch {
	case filepath.IsAbs(base):
	case env.UserName == "root":
		base = "/var/cache"
	case filepath.IsAbs(env.HomeDir):
		base = filepath.Join(env.HomeDir, ".cache")
	default:
		return "", errors.New("find a cache directory: neither XDG_CACHE_HOME nor HOME is set")
	}
	return filepath.Join(base, programDir), nil
}

// RuntimeDirectory returns the directory for the sockets and images of a run: the configured directory, otherwise
// $XDG_RUNTIME_DIR/vmrunner/NAME, otherwise /run/USER/vmrunner/NAME if /run/USER can be used, otherwise
// /tmp/USER/vmrunner/NAME. It must be created with mode 0700, and in /tmp it must belong to the user.
func (c *Config) RuntimeDirectory(env Env) string {
	if c.RuntimeDir != "" {
		return c.RuntimeDir
	}
	base := env.Getenv("XDG_RUNTIME_DIR")
	if !filepath.IsAbs(base) {
		base = filepath.Join("/run", env.UserName)
		if !env.Writable(base) {
			base = filepath.Join("/tmp", env.UserName)
		}
	}
	return filepath.Join(base, programDir, c.VM.Name)
}
