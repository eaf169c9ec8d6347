package inventory

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"vmop/filewatch"
	"vmop/runner/config"
	"vmop/runner/control"
	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/vmstatus"
)

// Watch returns a channel with all VMs, as List returns them: the first time at once, then
// whenever something about one of them is another. A reader that is slow misses what was
// between, never the last. It ends with ctx; then the channel is closed.
//
// What another user's runner does is not noticed.
func (inv *Inventory) Watch(ctx context.Context) <-chan []VM {
	w := &watch{
		inv: inv, out: make(chan []VM, 1), listed: make(chan []VM), reports: make(chan report),
		followed: map[string]bool{}, unwatch: func() {},
	}
	go w.run(ctx)
	return w.out
}

// watch is one call of Watch. All but out, listed and reports belongs to run's goroutine.
type watch struct {
	inv     *Inventory
	out     chan []VM
	listed  chan []VM
	reports chan report

	vms      []VM
	followed map[string]bool           // runtime directories whose runners are followed
	news     map[string]*status.Status // reported since the list was begun that is being made
	working  int                       // goroutines
	paths    []string                  // that are watched
	changes  <-chan struct{}           // of them
	unwatch  context.CancelFunc
}

// report is what a runner says; status is nil when it is not followed any more.
type report struct {
	dir    string
	status *status.Status
}

func (w *watch) run(ctx context.Context) {
	defer close(w.out)
	ctx, cancel := context.WithCancel(ctx)
	defer w.drain()
	defer cancel()
	for listing, again := false, true; ; {
		if again && !listing {
			listing, again = true, false
			w.list(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-w.changes:
			again = true
		case <-w.unclear():
			again = true
		case vms := <-w.listed:
			w.working--
			listing = false
			for dir, s := range w.news {
				vms = with(vms, dir, s)
			}
			w.show(vms)
			w.follow(ctx)
		case r := <-w.reports:
			if r.status == nil {
				w.working--
				delete(w.followed, r.dir)
				again = true
				break
			}
			w.news[r.dir] = r.status
			w.show(with(w.vms, r.dir, r.status))
		}
	}
}

// watch watches the files by which changes are noticed; which those are may have changed.
// A new watch begins with a notification.
func (w *watch) watch(ctx context.Context) {
	paths := w.inv.watched()
	if slices.Equal(paths, w.paths) {
		return
	}
	w.unwatch()
	ctx, w.unwatch = context.WithCancel(ctx)
	w.paths, w.changes = paths, filewatch.Files(ctx, w.inv.opts.Log, paths...)
}

// unclearTime is after what time a runner is asked again that could not be followed.
const unclearTime = 5 * time.Second

// unclear returns when to ask again, if there is a VM that makes no events.
func (w *watch) unclear() <-chan time.Time {
	for _, vm := range w.vms {
		if vm.State == StateNoAnswer || vm.State == StateNoRunner || vm.State == StateActive {
			return time.After(unclearTime)
		}
	}
	return nil
}

// list begins to make a list, which comes to listed.
func (w *watch) list(ctx context.Context) {
	w.watch(ctx)
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

// drain waits for the goroutines.
func (w *watch) drain() {
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

// show puts a list that is another than the last one into the channel, in place of one that
// was not taken.
func (w *watch) show(vms []VM) {
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

// with returns VMs with the status of the one in a runtime directory.
func with(vms []VM, dir string, s *status.Status) []VM {
	vms = slices.Clone(vms)
	for i := range vms {
		if vms[i].RuntimeDir == dir {
			vms[i].State, vms[i].Status, vms[i].Problem = s.State, s, lostText(s)
		}
	}
	return vms
}

// follow follows the runners of VMs that are not followed yet.
func (w *watch) follow(ctx context.Context) {
	for _, vm := range w.vms {
		if vm.Status == nil || w.followed[vm.RuntimeDir] {
			continue
		}
		w.followed[vm.RuntimeDir] = true
		w.working++
		go func() {
			if err := w.subscribe(ctx, &vm); err != nil {
				rest(ctx)
			}
			w.reports <- report{dir: vm.RuntimeDir}
		}()
	}
}

// rest delays the next attempt to follow a runner.
func rest(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
}

// subscribe passes on what a runner reports, until the VM has stopped and the runner has ended.
func (w *watch) subscribe(ctx context.Context, vm *VM) error {
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

// watched returns the paths by which changes are noticed: the folders, configurations in
// folders of their own, and wherever runners make their sockets.
func (inv *Inventory) watched() (paths []string) {
	for _, place := range inv.opts.Places {
		paths = append(paths, place.Folder+"/")
		entries, _ := os.ReadDir(place.Folder) // List has the fault
		for _, e := range entries {
			if e.IsDir() {
				paths = append(paths, filepath.Join(place.Folder, e.Name(), ownFolders))
			}
		}
	}
	for _, base := range inv.bases() {
		paths = append(paths, base+"/", filepath.Join(base, config.ElsewhereDir)+"/")
		entries, _ := os.ReadDir(base) // it may have gone
		for _, e := range entries {
			if e.IsDir() || e.Type() == os.ModeSymlink { // as systemd makes them
				paths = append(paths, filepath.Join(base, e.Name(), control.SocketName))
			}
		}
	}
	return paths
}

// bases returns the directories in which runners make runtime directories, also those that
// the first VM will make.
func (inv *Inventory) bases() []string {
	bases := config.RuntimeBases(inv.opts.Env)
	for _, place := range inv.opts.Places {
		base := filepath.Dir((&config.Config{VM: vmspec.Spec{Name: "x"}}).RuntimeDirectory(place.Env))
		if !slices.Contains(bases, base) {
			bases = append(bases, base)
		}
	}
	return bases
}
