package follow

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"

	"vmop/filewatch"
	"vmop/runner/prepare"
	"vmop/vmtypes/policy"
)

// typeWatch tells that the modules have changed among which a VM's type is. Stock
// types are part of the program.
type typeWatch struct {
	log     *slog.Logger
	changed chan struct{}
	folder  string // that is watched; policy.Stock: none
	end     context.CancelFunc
}

func newTypeWatch(log *slog.Logger) *typeWatch {
	return &typeWatch{log: log, changed: make(chan struct{}, 1), folder: policy.Stock, end: func() {}}
}

// watch watches the folder of the type of a VM, in place of another; it ends with the
// context. Where it can't be watched, a change of the type shows when the
// configuration changes.
func (w *typeWatch) watch(ctx context.Context, vmTypes, name string) {
	folder, err := prepare.TypeFolder(vmTypes, name)
	if err != nil || folder == w.folder {
		return
	}
	w.end()
	w.folder, w.end = folder, func() {}
	if folder == policy.Stock {
		return
	}
	ctx, w.end = context.WithCancel(ctx)
	files, err := filewatch.New(ctx, w.log, folder)
	if err != nil {
		w.log.Warn("changes of the VM type will not be noticed", "folder", folder, "err", err)
		return
	}
	go w.follow(ctx, files)
	w.notify() // they may have changed since they were read
}

// notify leaves a notification, if there is none yet.
func (w *typeWatch) notify() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// follow tells of changes until the context is done.
func (w *typeWatch) follow(ctx context.Context, files *filewatch.Watch) {
	for {
		names, err := files.Wait(ctx)
		if err != nil {
			if ctx.Err() == nil {
				w.log.Warn("changes of the VM type are no longer noticed", "err", err)
			}
			return
		}
		if slices.ContainsFunc(names, func(name string) bool { return filepath.Ext(name) == ".star" }) {
			w.notify()
		}
	}
}
