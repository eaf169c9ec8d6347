package inventory

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"vmop/internal/filewatch"
	"vmop/runner/config"
	"vmop/runner/control"
	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/vmstatus"
)

// Watch returns a channel with all VMs, as returned by List: the first list immediately, then a list after each
// change of a VM. A slow reader misses intermediate lists, but never the last. The channel is closed when ctx
// ends.
//
// Watch doesn't notice the actions of another user's runner.
func (inv *Inventory) Watch(ctx context.Context) <-chan []VM {
	w := &watch{
		inv: inv, out: make(chan []VM, 1), listed: make(chan []VM), reports: make(chan report),
		followed: map[string]bool{}, unwatch: func() {},
	}
	go w.runWatch(ctx)
	return w.out
}

// watch is one call of Watch. All fields except out, listed and reports belong to run's goroutine.
type watch struct {
	inv     *Inventory
	out     chan []VM
	listed  chan []VM
	reports chan report

	vms      []VM
	followed map[string]bool           // runtime directories of followed runners
	news     map[string]*status.Status // reported since the current listing began
	working  int                       // goroutines
	paths    []string                  // watched paths
	changes  <-chan struct{}           // changes of these paths
	unwatch  context.CancelFunc
}

// report is the report of a runner; status is nil when the runner is not followed any more.
type report struct {
	dir    string
	status *status.Status
}

func (w *watch) runWatch(ctx context.Context) {
	defer close(w.out)
	ctx, cancel := context.WithCancel(ctx)
	defer w.awaitGoroutines()
	defer cancel()
	for listing, again := false, true; ; {
		if again && !listing {
			listing, again = true, false
			w.beginList(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-w.changes:
			again = true
		case <-w.nextQuery():
			again = true
		case vms := <-w.listed:
			w.working--
			listing = false
			for dir, s := range w.news {
				vms = withStatus(vms, dir, s)
			}
			w.showIfChanged(vms)
			w.followRunners(ctx)
		case r := <-w.reports:
			if r.status == nil {
				w.working--
				delete(w.followed, r.dir)
				again = true
				break
			}
			w.news[r.dir] = r.status
			w.showIfChanged(withStatus(w.vms, r.dir, r.status))
		}
	}
}

// watchFiles watches the files that show changes, if the list of these files has changed. A new watch begins with a
// notification.
func (w *watch) watchFiles(ctx context.Context) {
	paths := w.inv.watchedPaths()
	if slices.Equal(paths, w.paths) {
		return
	}
	w.unwatch()
	ctx, w.unwatch = context.WithCancel(ctx)
	w.paths, w.changes = paths, filewatch.Files(ctx, w.inv.opts.Log, paths...)
}

// unclearTime is the delay before a runner that could not be followed is asked again.
const unclearTime = 5 * time.Second

// nextQuery returns when to ask again, if there is a VM without events.
func (w *watch) nextQuery() <-chan time.Time {
	for _, vm := range w.vms {
		if vm.State == StateNoAnswer || vm.State == StateNoRunner || vm.State == StateActive {
			return time.After(unclearTime)
		}
	}
	return nil
}

// beginList starts to list the VMs. The list is sent to listed.
func (w *watch) beginList(ctx context.Context) {
	w.watchFiles(ctx)
	w.news = map[string]*status.Status{}
	w.working++
	go func() {
		vms, err := w.inv.List(ctx)
		if err != nil && ctx.Err() == nil {
			w.inv.opts.Log.Warn("not all VMs are listed", "err", err)
		}
		w.listed <- vms
	}()
}

// awaitGoroutines waits for the goroutines.
func (w *watch) awaitGoroutines() {
	for w.working > 0 {
		select {
		case <-w.listed:
			w.working--
		case r := <-w.reports:
			if r.status == nil {
				w.working--
			}
		}
	}
}

// showIfChanged sends a changed list. It replaces a list that the reader has not received yet.
func (w *watch) showIfChanged(vms []VM) {
	if w.vms != nil && reflect.DeepEqual(w.vms, vms) {
		return
	}
	w.vms = vms
	select {
	case <-w.out:
	default:
	}
	w.out <- slices.Clone(vms) // only this goroutine sends
}

// withStatus returns the VMs with a new status for the VM in a runtime directory.
func withStatus(vms []VM, dir string, s *status.Status) []VM {
	vms = slices.Clone(vms)
	for i := range vms {
		if vms[i].RuntimeDir == dir {
			vms[i].State, vms[i].Status, vms[i].Problem = s.State, s, lostText(s)
		}
	}
	return vms
}

// followRunners follows the runners of VMs that are not followed yet.
func (w *watch) followRunners(ctx context.Context) {
	for _, vm := range w.vms {
		if vm.Status == nil || w.followed[vm.RuntimeDir] {
			continue
		}
		w.followed[vm.RuntimeDir] = true
		w.working++
		go func() {
			if err := w.subscribeTo(ctx, &vm); err != nil {
				delayRetry(ctx)
			}
			w.reports <- report{dir: vm.RuntimeDir}
		}()
	}
}

// delayRetry delays the next attempt to follow a runner.
func delayRetry(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
}

// subscribeTo passes on the reports of a runner, until the VM has stopped and the runner has ended.
func (w *watch) subscribeTo(ctx context.Context, vm *VM) error {
	client, err := vm.Dial(ctx)
	if err != nil {
		return err
	}
	runner, err := client.Process(ctx)
	if err != nil {
		return err
	}
	defer runner.Close()
	events, err := client.Events(ctx, control.TypeStatus)
	if err != nil {
		return err
	}
	defer events.Close()
	for {
		e, err := events.Next()
		if err != nil {
			return err
		}
		if e.Status == nil {
			continue
		}
		w.reports <- report{vm.RuntimeDir, e.Status}
		if e.Status.State == vmstatus.StateStopped {
			return runner.Wait(ctx) // it still removes its socket
		}
	}
}

// watchedPaths returns the paths that show changes: the folders, configurations in their own folders, and all places
// where runners create their sockets.
func (inv *Inventory) watchedPaths() (paths []string) {
	for _, place := range inv.opts.Places {
		paths = append(paths, place.Folder+"/")
		entries, _ := os.ReadDir(place.Folder) // List reports the error
		for _, e := range entries {
			if e.IsDir() {
				paths = append(paths, filepath.Join(place.Folder, e.Name(), ownFolders))
			}
		}
	}
	for _, base := range inv.runtimeBases() {
		paths = append(paths, base+"/", filepath.Join(base, config.ElsewhereDir)+"/")
		entries, _ := os.ReadDir(base) // it may be gone
		for _, e := range entries {
			if e.IsDir() || e.Type() == os.ModeSymlink { // systemd creates symbolic links
				paths = append(paths, filepath.Join(base, e.Name(), control.SocketName))
			}
		}
	}
	return paths
}

// runtimeBases returns the parents of runtime directories, including those that the first VM will create.
func (inv *Inventory) runtimeBases() []string {
	bases := config.RuntimeBases(inv.opts.Env)
	for _, place := range inv.opts.Places {
		base := filepath.Dir((&config.Config{VM: vmspec.Spec{Name: "x"}}).RuntimeDirectory(place.Env))
		if !slices.Contains(bases, base) {
			bases = append(bases, base)
		}
	}
	return bases
}
