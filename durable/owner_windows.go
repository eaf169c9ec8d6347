package durable

import (
	"io/fs"
	"os"
)

// keepOwner leaves it to the folder, from which files inherit.
func keepOwner(*os.File, fs.FileInfo) error { return nil }
