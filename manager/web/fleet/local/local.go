package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"vmop/internal/yamlfile"
	"vmop/manager/web/fleet"
	"vmop/manager/web/fleet/describe"
	"vmop/runner/control"
	"vmop/runner/inventory"
)

// A Fleet contains the VMs of this computer.
type Fleet struct {
	fleet.Table
	inventory *inventory.Inventory
	user      string
	log       *slog.Logger
	// services reports whether systemd manages services of the user.
	services bool
	jobs     jobs
	uploads  uploads
	fetches  fetches
}

var _ fleet.Fleet = (*Fleet)(nil)

// New returns the fleet of an inventory, with its current VMs. user is the user of this program, who views screens
// through it.
func New(ctx context.Context, inv *inventory.Inventory, user string, log *slog.Logger) *Fleet {
	f := &Fleet{inventory: inv, user: user, log: log, services: inv.UserServices(ctx)}
	if err := inv.MakeMediaFolder(f.isSystem()); err != nil {
		log.Warn("files can't be uploaded", "err", err)
	}
	vms, err := inv.List(ctx)
	if err != nil {
		log.Warn("not all VMs can be listed", "err", err)
	}
	f.replaceAll(vms)
	return f
}

// Run keeps the list current until ctx is done.
func (f *Fleet) Run(ctx context.Context) error {
	for vms := range f.inventory.Watch(ctx) {
		f.replaceAll(vms)
	}
	return nil
}

// replaceAll replaces the VMs in the table.
func (f *Fleet) replaceAll(vms []inventory.VM) {
	known := map[string]bool{}
	for i := range vms {
		if vms[i].Place == nil && !vms[i].Running() {
			continue // leftovers of a killed VM with an unknown file
		}
		known[vms[i].Name] = true
		f.Put(f.viewOf(&vms[i]))
	}
	for _, vm := range f.List() {
		if !known[vm.Name] {
			f.Remove(vm.Name)
		}
	}
}

// nameViewers replaces viewers that are this process with the name of its user. Runners know only the process.
func (f *Fleet) nameViewers(vm *fleet.VM) *fleet.VM {
	own := fmt.Sprintf(" pid %d", os.Getpid())
	for i := range vm.Viewers {
		if strings.HasSuffix(vm.Viewers[i].Who, own) {
			vm.Viewers[i].Who = f.user
		}
	}
	return vm
}

// Do implements fleet.Fleet. A start, restart or forced stop continues in the background after the answer, even if the
// request is canceled.
func (f *Fleet) Do(ctx context.Context, user, name string, a fleet.Action) error {
	switch a {
	case fleet.Start:
		return f.runInBackground(ctx, name, "start",
			func(ctx context.Context) error { return f.inventory.Start(ctx, name) })
	case fleet.Restart, fleet.ForceRestart:
		return f.runInBackground(ctx, name, "restart", func(ctx context.Context) error {
			return f.inventory.Restart(ctx, name, a == fleet.ForceRestart)
		})
	case fleet.Stop:
		return asRefusal(f.inventory.Stop(ctx, name, false))
	case fleet.Kill:
		return f.runInBackground(ctx, name, "stop",
			func(ctx context.Context) error { return f.inventory.Stop(ctx, name, true) })
	case fleet.Delete:
		_, err := f.inventory.Delete(ctx, name, inventory.DeleteOptions{})
		return asRefusal(err)
	}
	client, err := f.dialRunner(ctx, name)
	if err != nil {
		return err
	}
	return asRefusal(client.Act(ctx, control.Action(a)))
}

// Resize implements fleet.Fleet.
func (f *Fleet) Resize(ctx context.Context, user, name string, s fleet.Size) error {
	vm, err := f.Get(name)
	if err != nil {
		return err
	}
	values := map[string]string{}
	if s.CPUs != nil {
		values["currentCpus"] = strconv.FormatInt(*s.CPUs, 10)
		if *s.CPUs > vm.CPUs.Maximum {
			values["maximumCpus"] = values["currentCpus"]
		}
	}
	if s.RAM != nil {
		values["currentRam"] = strconv.FormatInt(*s.RAM>>20, 10) + " MiB"
		if *s.RAM > vm.RAM.Maximum {
			values["maximumRam"] = values["currentRam"]
		}
	}
	return f.editFile(ctx, name, func(text []byte) ([]byte, error) {
		for _, key := range slices.Sorted(maps.Keys(values)) {
			var err error
			if text, err = inventory.SetInVM(text, values[key], key); err != nil {
				return nil, err
			}
		}
		return text, nil
	})
}

// Insert implements fleet.Fleet. The name of a drive contains its index in the configuration. If the medium is the same
// as the one that pages show, the file stays unchanged, including a password in it.
func (f *Fleet) Insert(ctx context.Context, user, name, drive, medium string) error {
	vm, err := f.Get(name)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(vm.Drives, func(d fleet.Drive) bool { return d.Name == drive })
	switch {
	case at < 0:
		return fleet.Refusal("there is no " + drive + " for media")
	case vm.Drives[at].Medium == medium:
		return nil
	}
	place, err := strconv.Atoi(strings.TrimPrefix(drive, drivePrefix))
	if err != nil {
		return fmt.Errorf("read the index in %q: %w", drive, err)
	}
	return f.runInBackground(ctx, name, "medium", func(ctx context.Context) error {
		_, err := f.inventory.ChangeMedium(ctx, inventory.MediumRequest{
			VM: name, Drive: place, File: medium, Limit: mediumTime, Tell: func(string, string) {},
		})
		if errors.Is(err, inventory.ErrTray) {
			return nil // the page shows it
		}
		return err
	})
}

// mediumTime is the time for a guest to open the tray of a CD drive.
const mediumTime = time.Minute

// editFile changes a VM's file. It returns an error if the file can't be read, or if the change makes it invalid.
func (f *Fleet) editFile(ctx context.Context, name string, change func([]byte) ([]byte, error)) error {
	before, err := f.inventory.Text(ctx, name)
	if err != nil {
		return asRefusal(err)
	}
	after, err := change(before)
	if err != nil {
		return asRefusal(err)
	}
	_, err = f.inventory.Edit(ctx, name, before, after)
	return asRefusal(err)
}

// Screenshot implements fleet.Fleet.
func (f *Fleet) Screenshot(ctx context.Context, w io.Writer, name string) error {
	client, err := f.dialRunner(ctx, name)
	if err != nil {
		return err
	}
	return asRefusal(client.Screenshot(ctx, w))
}

// Screen implements fleet.Fleet.
func (f *Fleet) Screen(ctx context.Context, user, name string, mode fleet.Mode) (net.Conn, error) {
	client, err := f.dialRunner(ctx, name)
	if err != nil {
		return nil, err
	}
	conn, err := client.Screen(ctx, control.Mode(mode))
	return conn, asRefusal(err)
}

// SPICE implements fleet.Fleet.
func (f *Fleet) SPICE(ctx context.Context, user, name, id string, mode fleet.Mode) (net.Conn, error) {
	client, err := f.dialRunner(ctx, name)
	if err != nil {
		return nil, err
	}
	conn, err := client.SPICE(ctx, id, control.Mode(mode))
	return conn, asRefusal(err)
}

// Console implements fleet.Fleet.
func (f *Fleet) Console(ctx context.Context, user, name string, mode fleet.Mode) (net.Conn, error) {
	client, err := f.dialRunner(ctx, name)
	if err != nil {
		return nil, err
	}
	conn, err := client.Console(ctx, control.Mode(mode))
	return conn, asRefusal(err)
}

// Forward implements fleet.Fleet.
func (f *Fleet) Forward(ctx context.Context, user, name string, port int) (net.Conn, error) {
	client, err := f.dialRunner(ctx, name)
	if err != nil {
		return nil, err
	}
	conn, err := client.Forward(ctx, port)
	return conn, asRefusal(err)
}

// Events implements fleet.Fleet. It returns the history from the VM's runner; no events if the VM has no runner.
func (f *Fleet) Events(ctx context.Context, name string) (<-chan []fleet.Event, error) {
	events := make(chan []fleet.Event)
	go func() { // asks the runner after each change, until ctx is done
		for ctx.Err() == nil {
			changed := f.Changed()
			if list, err := f.readHistory(ctx, name); err == nil {
				select {
				case events <- list:
				case <-ctx.Done():
				}
			}
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	}()
	return events, nil
}

func (f *Fleet) readHistory(ctx context.Context, name string) ([]fleet.Event, error) {
	client, err := f.dialRunner(ctx, name)
	if err != nil {
		return nil, err
	}
	return describe.Events(ctx, client)
}

// dialRunner connects to the runner of a VM.
func (f *Fleet) dialRunner(ctx context.Context, name string) (*control.Client, error) {
	vm, err := f.inventory.Find(ctx, name)
	if err != nil {
		return nil, asRefusal(err)
	}
	client, err := vm.Dial(ctx)
	return client, asRefusal(err)
}

// asRefusal converts errors that the user can understand and fix to a Refusal.
func asRefusal(err error) error {
	var faults yamlfile.Faults
	var start *inventory.StartError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, inventory.ErrUnknown):
		return fmt.Errorf("%w: %w", fleet.ErrNotFound, err)
	case errors.As(err, &faults):
		return fleet.Refusal(faults.Excerpts())
	case errors.As(err, new(fleet.Refusal)), errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &start), errors.Is(err, control.ErrNotRunning), errors.Is(err, inventory.ErrRunning),
		errors.Is(err, inventory.ErrChanged), errors.Is(err, inventory.ErrUpload), errors.Is(err, inventory.ErrName):
		return fleet.Refusal(err.Error())
	case errors.Is(err, inventory.ErrExists):
		return fmt.Errorf("%w: %w", fleet.ErrExists, err)
	case errors.Is(err, inventory.ErrBusy):
		return fleet.NotYet(err.Error())
	}
	return describe.Refusal(err)
}
