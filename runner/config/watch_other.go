//go:build !linux

package config

import (
	"context"
	"errors"
)

// listen is for Linux: elsewhere, files are looked at regularly.
func listen(context.Context, []string) (watcher, error) {
	return nil, errors.New("there is no inotify on this system")
}
