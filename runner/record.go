package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"vmop/durable"
	"vmop/process"
	"vmop/runner/config"
	"vmop/runner/machine"
	"vmop/vmtypes"
)

// Files in the runtime directory by which a runner carries on what another one,
// which was killed, has begun.
const (
	recordFile   = "machine.json"
	progressFile = "runner.json"
	// typeFile is the archive of the machine's type: a file of its own, because it is
	// long, and has to be there before the guest runs.
	typeFile = pinnedType
	// configFile is the configuration in force, if it isn't the record's.
	configFile = "config.yaml"
	// runtimeLink in the data directory leads to the runtime directory, which
	// the configuration may have moved meanwhile. It is there while a guest
	// runs.
	runtimeLink = "runtime"
)

// recordVersion changes when an older runner's record can't be used any more.
const recordVersion = 1

// A record is what a running machine consists of, and what its plan was
// computed from: the plan itself is computed again. It is written before the
// guest runs, and not changed. A machine without a record never ran.
//
// See docs/decisions/0025-adoption.md.
type record struct {
	Version int          `json:"version"`
	QEMU    process.ID   `json:"qemu"`
	Helpers []process.ID `json:"helpers,omitempty"` // in the plan's order
	Began   time.Time    `json:"began"`

	ConfigFile string `json:"configFile"`
	Config     string `json:"config"` // its text
	DataDir    string `json:"dataDir"`
	UUID       string `json:"uuid"`
	// VMType is the archive of the type in the record of an older runner, which made
	// no typeFile.
	VMType string `json:"vmType,omitempty"`
	// Unpinned: the type isn't in the data directory yet.
	Unpinned  bool              `json:"unpinned,omitempty"`
	Machines  map[string]string `json:"machines,omitempty"`
	Host      hostFacts         `json:"host"`
	Protected bool              `json:"protected"`
}

// sinceBoot is the time since the host was started, time asleep included.
func sinceBoot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0 // Linux has had this clock since 2.6.39
	}
	return time.Duration(t.Nano())
}

// record returns what a later runner must know. The guest is about to run.
func (m *run) record() record {
	vm := m.vm
	r := record{
		Version: recordVersion, QEMU: m.qemu.ID(), Began: m.began,
		ConfigFile: m.file, Config: string(vm.Config.Text()), DataDir: vm.DataDir, UUID: vm.Spec.UUID,
		Unpinned: !vm.pin.kept, Machines: vm.pin.machines, Host: vm.facts, Protected: vm.protected,
	}
	for _, h := range m.helpers {
		r.Helpers = append(r.Helpers, h.ID())
	}
	return r
}

// rememberType writes the part of the record that is known while QEMU is coming up.
func (m *run) rememberType() error {
	return durable.Write(filepath.Join(m.vm.RuntimeDir, typeFile), m.vm.pin.archive, 0o600, durable.Volatile)
}

// remember writes the record; from now on the machine is carried on by another
// runner if this one is killed.
func (m *run) remember(ctx context.Context) error {
	m.began = time.Now()
	if err := m.driver.Save(ctx); err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(m.vm.RuntimeDir, recordFile), m.record(), durable.Volatile); err != nil {
		return err
	}
	return linkRuntime(m.vm.DataDir, m.vm.RuntimeDir)
}

// saveProgress writes how far this runner has come.
func (m *run) saveProgress(p machine.Progress) error {
	return writeJSON(filepath.Join(m.vm.RuntimeDir, progressFile), p, durable.Volatile)
}

// keepConfig notes the configuration in force.
func (m *run) keepConfig(cfg *config.Config) {
	path := filepath.Join(m.vm.RuntimeDir, configFile)
	if err := durable.Write(path, cfg.Text(), 0o600, durable.Volatile); err != nil {
		m.log.Warn("the configuration in force is not saved", "err", err)
	}
}

// lastWanted returns the VM as it was wanted when the earlier runner was killed. An
// older wish must not come before it: a reset counter that goes back would reset
// the VM when it returns.
func (m *run) lastWanted() *VM {
	next, err := m.vm.renewed(m.keptConfig())
	if err != nil {
		m.log.Warn("the configuration in force when the earlier runner was killed is unknown", "err", err)
		return m.vm
	}
	return next
}

// keptConfig returns the configuration that was in force last.
func (m *run) keptConfig() *config.Config {
	text, err := os.ReadFile(filepath.Join(m.vm.RuntimeDir, configFile))
	if err != nil { // there was no other than the first
		return m.vm.Config
	}
	cfg, _, err := config.Parse(m.file, text)
	if err != nil {
		return m.vm.Config
	}
	return cfg
}

func writeJSON(path string, value any, lifetime durable.Lifetime) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return durable.Write(path, append(data, '\n'), 0o600, lifetime)
}

// readJSON returns false if there is no such file.
func readJSON(path string, into any) (bool, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(data))
		err = decoder.Decode(into)
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", path, err)
	}
	return true, nil
}

// linkRuntime notes in the data directory where the runtime directory is.
func linkRuntime(dataDir, runtimeDir string) error {
	link := filepath.Join(dataDir, runtimeLink)
	if at, err := os.Readlink(link); err == nil && at == runtimeDir {
		return nil
	}
	if err := durable.Link(runtimeDir, link); err != nil {
		return fmt.Errorf("note the runtime directory in the data directory: %w", err)
	}
	return nil
}

// linkedRuntime returns the runtime directory of the machine whose guest runs;
// if none is noted, the one that is configured now.
func linkedRuntime(dataDir, configured string) (dir string, noted bool) {
	if at, err := os.Readlink(filepath.Join(dataDir, runtimeLink)); err == nil {
		return at, true
	}
	return configured, false
}

// vm makes the VM anew that the record is about, with the plan that it was
// started by.
func (r *record) vm(ctx context.Context, runtimeDir string) (*VM, error) {
	cfg, _, err := config.Parse(r.ConfigFile, []byte(r.Config))
	if err != nil {
		return nil, err
	}
	cfg.VM.UUID = r.UUID // its file may be another now
	folder, err := filepath.Abs(filepath.Dir(r.ConfigFile))
	if err != nil {
		return nil, fmt.Errorf("folder of %s: %w", r.ConfigFile, err)
	}
	vm, err := newVM(cfg, folder)
	if err != nil {
		return nil, err
	}
	vm.DataDir, vm.RuntimeDir, vm.facts = r.DataDir, runtimeDir, r.Host
	if err := vm.resolve(vm.DataDir, false); err != nil {
		return nil, err
	}
	if vm.pin, err = r.pin(ctx, runtimeDir); err != nil {
		return nil, err
	}
	vm.protected = r.Protected
	ctx, cancel := context.WithTimeout(ctx, evaluationTime)
	defer cancel()
	return vm, vm.launch(ctx)
}

// pin returns the type of the machine.
func (r *record) pin(ctx context.Context, runtimeDir string) (p *pin, err error) {
	p = &pin{machines: r.Machines, archive: []byte(r.VMType), kept: !r.Unpinned}
	if r.VMType == "" {
		if p.archive, err = os.ReadFile(filepath.Join(runtimeDir, typeFile)); err != nil {
			return nil, fmt.Errorf("read the type of the VM that runs: %w", err)
		}
	}
	p.vmType, err = vmtypes.LoadArchive(ctx, p.archive)
	return p, err
}
