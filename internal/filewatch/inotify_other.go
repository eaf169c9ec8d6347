//go:build !linux

package filewatch

import (
	"context"
	"errors"
)

// listenToKernel always fails outside Linux, so files are polled.
func listenToKernel(context.Context, []string) (watcher, error) {
	return nil, errors.New("there is no inotify on this system")
}
