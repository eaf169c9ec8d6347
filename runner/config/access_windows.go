package config

import "io/fs"

// Runners only exist on Linux; these functions are stubs.

func statDirectory(string) (owner int, mode fs.FileMode, ok bool) { return 0, 0, false }

func isAccessible(string) bool { return false }
