package inventory

import (
	"bytes"
	"context"
	_ "embed" // the unit
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"vmop/internal/atomicfile"
	"vmop/internal/childprocess"
	"vmop/runner/adopt/record"
)

// systemdTime bounds queries to systemd.
const systemdTime = 5 * time.Second

// Service is what systemd knows about a VM.
type Service struct {
	// Unit is the name of the service. It is empty if systemd has no service for the VM; the VM is then started
	// without systemd.
	Unit string
	// Active is systemd's ActiveState: active, activating, deactivating, inactive or failed.
	Active string
	// Autostart reports whether the VM starts with the computer, or the user's session.
	Autostart bool
}

// UserServices reports whether systemd manages services of this user.
func (inv *Inventory) UserServices(ctx context.Context) bool {
	place, err := inv.Place(false)
	if err != nil || place.Detached {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, systemdTime)
	defer cancel()
	_, err = place.runSystemctl(ctx, "show", "--property=Version")
	return err == nil
}

// CanAutostart reports whether the VM has, or Autostart can install, a service of systemd. services is the result of
// UserServices.
func (vm *VM) CanAutostart(services bool) bool {
	switch {
	case vm.Place == nil, vm.Place.Detached, unitName(vm.Name) == "":
		return false
	case vm.Service.Unit != "":
		return true
	}
	return services && !vm.Place.System
}

// StartsAtBoot reports whether an automatic start happens when the computer boots, and not when its user logs in.
func (inv *Inventory) StartsAtBoot(vm *VM) bool {
	return vm.Place != nil && (vm.Place.System || canLinger(inv.opts.Env.UserName))
}

// stateOfVM returns the state of a service's VM without a visible runner; empty if the VM isn't running.
func (s Service) stateOfVM() State {
	switch s.Active {
	case "active", "activating", "reloading", "deactivating":
		return StateActive
	case "failed":
		return StateFailed
	}
	return ""
}

// unitName returns the service of a VM. It is empty if the name can't be part of a unit's name without escapes.
func unitName(name string) string {
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.:", r) {
			return ""
		}
	}
	return unitPrefix + name + unitSuffix
}

// The parts of a service's name around the VM's name.
const unitPrefix, unitSuffix = "vmrunner@", ".service"

// runSystemctl runs systemctl for the services of a place.
func (p *Place) runSystemctl(ctx context.Context, args ...string) (string, error) {
	manager := []string{"--no-ask-password", "--no-pager"}
	if !p.System {
		manager = append(manager, "--user")
	}
	cmd := exec.CommandContext(ctx, "systemctl", append(manager, args...)...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if text := strings.TrimSpace(said.String()); err != nil && text != "" {
		err = fmt.Errorf("systemctl %s: %s", args[0], text)
	} else if err != nil {
		err = fmt.Errorf("systemctl %s: %w", args[0], err)
	}
	return out.String(), err
}

// querySystemd adds systemd's information to VMs. Without systemd it does nothing.
func querySystemd(ctx context.Context, vms []VM) {
	ctx, cancel := context.WithTimeout(ctx, systemdTime)
	defer cancel()
	byPlace := map[*Place][]*VM{}
	for i := range vms {
		if vm := &vms[i]; vm.Place != nil && !vm.Place.Detached && unitName(vm.Name) != "" {
			byPlace[vm.Place] = append(byPlace[vm.Place], vm)
		}
	}
	for place, list := range byPlace {
		args := []string{"show", "--property=Id,LoadState,ActiveState,UnitFileState", "--"}
		for _, vm := range list {
			args = append(args, unitName(vm.Name))
		}
		out, err := place.runSystemctl(ctx, args...)
		if err != nil {
			continue // systemd doesn't run, or not for this user
		}
		for block := range strings.SplitSeq(out, "\n\n") {
			id, service := parseService(block)
			for _, vm := range list {
				if unitName(vm.Name) == id {
					vm.Service = service
				}
			}
		}
	}
}

// parseService parses the properties of a unit that systemctl shows.
func parseService(text string) (id string, s Service) {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[key] = value
	}
	id = values["Id"]
	if values["LoadState"] != "loaded" {
		return id, Service{}
	}
	enabled := strings.HasPrefix(values["UnitFileState"], "enabled") // or "enabled-runtime"
	return id, Service{Unit: id, Active: values["ActiveState"], Autostart: enabled}
}

// journalCommand returns the command that shows the log of the VM's service.
func (vm *VM) journalCommand() string {
	if vm.Place.System {
		return "journalctl -u " + vm.Service.Unit
	}
	return "journalctl --user -u " + vm.Service.Unit
}

// Autostart switches the start of a VM with the computer, or with the user's session, on or off. If a user lacks
// the unit vmrunner@.service, it creates the unit in ~/.config/systemd/user. It returns a note for people about
// what else to know or do; usually it is empty.
func (inv *Inventory) Autostart(ctx context.Context, name string, on bool) (note string, err error) {
	vm, err := inv.Find(ctx, name)
	if err != nil {
		return "", err
	}
	if err := inv.mayStart(vm); on && err != nil {
		return "", err
	}
	verb := "disable"
	if on {
		verb = "enable"
	}
	if vm.Service.Unit == "" {
		if !on {
			return "", nil // it isn't started automatically
		}
		if err := inv.installUnit(ctx, vm); err != nil {
			return "", fmt.Errorf("%s can't be started automatically: %w", name, err)
		}
	}
	if _, err := vm.Place.runSystemctl(ctx, verb, "--", unitName(name)); err != nil {
		return "", err
	}
	if on && !vm.Place.System && !canLinger(inv.opts.Env.UserName) {
		note = "it starts when you log in; to start it with the computer: loginctl enable-linger"
	}
	return note, nil
}

// canLinger reports whether systemd runs the services of a user who isn't logged in.
func canLinger(user string) bool {
	_, err := os.Stat(filepath.Join("/var/lib/systemd/linger", user))
	return err == nil
}

// LogOutNote returns a note for people about what happens to a started VM when the user logs out; usually it is
// empty.
func (inv *Inventory) LogOutNote(vm *VM) string {
	return vm.logOutNote(canLinger(inv.opts.Env.UserName))
}

func (vm *VM) logOutNote(lingers bool) string {
	const remedy = "to prevent that: loginctl enable-linger"
	switch {
	case lingers || vm.Place == nil || vm.Place.System:
		return ""
	case vm.Service.Unit != "":
		return "when you log out, systemd stops " + vm.Name + "; " + remedy
	case strings.HasPrefix(vm.RuntimeDir, "/run/user/"):
		return "when you log out, systemd removes the sockets of " + vm.Name + " in " + vm.RuntimeDir +
			", and you don't reach the VM until you log in again; " + remedy
	}
	return ""
}

// installUnit creates the user's unit for VMs, if it doesn't exist.
func (inv *Inventory) installUnit(ctx context.Context, vm *VM) error {
	if unitName(vm.Name) == "" {
		return errors.New("its name can't be part of the name of a service: use letters, digits, and any of :._-")
	}
	if _, err := vm.Place.runSystemctl(ctx, "show", "--property=Version"); err != nil {
		return fmt.Errorf("this needs systemd: %w", err)
	}
	if vm.Place.System {
		return errors.New("systemd has no unit vmrunner@.service; \"make install\" installs it")
	}
	folder := filepath.Join(filepath.Dir(vm.Place.Folder), "systemd", "user")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("install a unit for VMs: %w", err)
	}
	file := filepath.Join(folder, "vmrunner@.service")
	if err := atomicfile.Write(file, inv.userUnit(), 0o644, atomicfile.Synced); err != nil {
		return fmt.Errorf("install a unit for VMs: %w", err)
	}
	_, err := vm.Place.runSystemctl(ctx, "daemon-reload")
	return err
}

// userTemplate is the unit that is installed for a user.
//
//go:embed systemd/vmrunner@.service
var userTemplate string

// userUnit returns the unit for this user. It sets the environment, because systemd's manager may have been
// started with another environment than this process.
func (inv *Inventory) userUnit() []byte {
	quote := func(text string) string { return strconv.Quote(strings.ReplaceAll(text, "%", "%%")) }
	environment := ""
	for _, name := range []string{"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"} {
		if value := inv.opts.Env.Getenv(name); filepath.IsAbs(value) {
			environment += "Environment=" + quote(name+"="+value) + "\n"
		}
	}
	return []byte(strings.NewReplacer("@PROGRAM@", quote(inv.opts.Program), "# @ENVIRONMENT@\n", environment).
		Replace(userTemplate))
}

// stopServiceOf makes systemd stop the service of a runner, if it has one, without waiting: systemd would restart
// a service after its runner was killed. The control group of the runner names the service.
func stopServiceOf(ctx context.Context, runner childprocess.ID) error {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(runner.PID), "cgroup"))
	if err != nil {
		return nil // it has ended, or doesn't exist
	}
	for line := range strings.Lines(string(text)) {
		service := filepath.Base(strings.TrimSpace(line))
		name, is := strings.CutSuffix(strings.TrimPrefix(service, unitPrefix), unitSuffix)
		if is && unitName(name) == service {
			manager := Place{System: !strings.Contains(line, "/user@")}
			_, err := manager.runSystemctl(ctx, "stop", "--no-block", "--", service)
			return err
		}
	}
	return nil
}

// stopService stops the VM's service, and returns when it has ended.
func (vm *VM) stopService(ctx context.Context) error {
	_, err := vm.Place.runSystemctl(ctx, "stop", "--", vm.Service.Unit)
	return err
}

// startService starts the VM's service, and returns when the guest is running.
func (vm *VM) startService(ctx context.Context) error {
	if _, err := vm.Place.runSystemctl(ctx, "start", "--", vm.Service.Unit); err != nil {
		if note, failed, e := record.ReadStartFailure(vm.DataDir); failed && e == nil {
			return &StartError{Name: vm.Name, Cause: note.Message}
		}
		return fmt.Errorf("start %s: %w; its log: %s", vm.Name, err, vm.journalCommand())
	}
	return nil
}
