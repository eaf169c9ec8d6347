package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"vmop/internal/atomicfile"
	"vmop/internal/readfile"
	"vmop/runner/adopt/record"
	"vmop/runner/config"
	"vmop/runner/control"
	"vmop/runner/launch"
	"vmop/runner/launch/sockets"
	"vmop/runner/prepare"
)

// keepDirectories remembers what restore needs to create the machine's runtime directory again. It is called
// before the guest runs, or when a running machine is adopted.
func (m *run) keepDirectories() {
	at := func(name string) string { return filepath.Join(m.vm.RuntimeDir, name) }
	monitor := at(prepare.MonitorSocket)
	paths := []string{monitor}
	for _, s := range m.vm.Plan.Sockets {
		paths = append(paths, s.Path)
	}
	kept, missing := sockets.Keep(paths)
	notes := map[string][]byte{} // contents of the files that another runner needs, by path
	w := &directoryWatch{
		data:    directory{path: m.vm.DataDir, lost: dataLost},
		runtime: directory{path: m.vm.RuntimeDir, lost: runtimeLost},
		files:   []string{at(control.SocketName), at(prepare.RecordFile)},
		remember: func() {
			for _, path := range []string{at(prepare.RecordFile), at(prepare.ConfigFile)} {
				if text, err := readfile.ReadFile(path, prepare.LargestRecord); err == nil {
					notes[path] = text
				}
			}
		},
		restore: func(ctx context.Context) error { return m.restoreDirectory(ctx, kept, notes) },
		missing: describeRemoved(missing), tracker: m.tracker, log: m.log,
	}
	w.openCurrent()
	w.remember()
	m.directories = w
	m.undo.Add("kept directories", func() error {
		kept.Close()
		w.close()
		return nil
	})
}

// restoreDirectory creates the runtime directory of a running VM again, with its sockets and the files that another
// runner needs to adopt the VM.
func (m *run) restoreDirectory(ctx context.Context, kept *sockets.Kept, notes map[string][]byte) error {
	if err := m.mayRestore(); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Dir(m.vm.CopySocket()), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	monitor := filepath.Join(m.vm.RuntimeDir, prepare.MonitorSocket)
	if err := sockets.LinkInherited(m.processes.QEMU.ID(), monitor); err != nil {
		return err
	}
	if err := kept.Link(); err != nil {
		return err
	}
	if err := record.WriteType(m.vm); err != nil {
		return err
	}
	if err := m.driver.Save(ctx); err != nil {
		return err
	}
	for path, text := range notes {
		if err := atomicfile.Write(path, text, 0o600, atomicfile.Volatile); err != nil {
			return err
		}
	}
	// Any program that finds the announcement's link dangling removes it, so the VM is announced again.
	if _, err := config.Announce(config.HostEnv(), m.machinePlace()); err != nil {
		m.log.Debug("vmrunner ps will not find the VM", "err", err)
	}
	if m.server == nil {
		return m.serveMachine(ctx)
	}
	return m.server.Reopen()
}

// mayRestore creates the directory, and returns an error if another VM uses it in the meantime.
func (m *run) mayRestore() error {
	if err := launch.MakePrivateDir(m.vm.RuntimeDir); err != nil {
		return err
	}
	other, there, err := record.Read(m.vm.RuntimeDir)
	if err == nil && there && other.QEMU != m.processes.QEMU.ID() && other.QEMU.Runs() {
		err = fmt.Errorf("another VM has it, with its data in %s", other.DataDir)
	}
	return err
}
