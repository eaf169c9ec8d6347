package follow

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"

	"vmop/internal/filewatch"
	"vmop/runner/prepare"
	"vmop/vmtypes/policy"
)

// typeWatch reports changes of the modules that may belong to a VM's type. Stock types are part of the program.
type typeWatch struct {
	log     *slog.Logger
	changed chan struct{}
	folder  string // the watched folder; policy.Stock: no folder
	end     context.CancelFunc
}

func newTypeWatch(log *slog.Logger) *typeWatch {
	return &typeWatch{log: log, changed: make(chan struct{}, 1), folder: policy.Stock, end: func() {}}
}

// watchType watches the folder of a VM's type instead of the previous folder, until the context ends. If the folder
// can't be watched, a change of the type is noticed when the configuration changes.
func (w *typeWatch) watchType(ctx context.Context, vmTypes, name string) {
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
	go w.followFiles(ctx, files)
	w.notifyOnce() // they may have changed since they were read
}

// notifyOnce leaves a notification, unless there is one already.
func (w *typeWatch) notifyOnce() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// followFiles reports changes until the context is done.
func (w *typeWatch) followFiles(ctx context.Context, files *filewatch.Watch) {
	for {
		names, err := files.Wait(ctx)
		if err != nil {
			if ctx.Err() == nil {
				w.log.Warn("changes of the VM type are no longer noticed", "err", err)
			}
			return
		}
		if slices.ContainsFunc(names, func(name string) bool { return filepath.Ext(name) == ".star" }) {
			w.notifyOnce()
		}
	}
}
