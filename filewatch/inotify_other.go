//go:build !linux

package filewatch

import (
	"context"
	"errors"
)

// listen is for Linux: elsewhere, files are polled.
func listen(context.Context, []string) (watcher, error) {
	return nil, errors.New("there is no inotify on this system")
}
