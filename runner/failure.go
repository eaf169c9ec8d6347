package runner

import (
	"errors"
	"log/slog"
	"os"
	"time"

	"vmop/runner/adopt/record"
	"vmop/runner/config"
	"vmop/runner/launch"
	"vmop/runner/prepare"
)

// noteFailure records why the VM could not be started. The record lasts until the next start. A stop request is
// not a failure.
func (m *run) noteFailure(err error) {
	if errors.As(err, new(stoppedError)) {
		return
	}
	writeFailure(m.vm.DataDir, err, m.log)
}

// noteFault is like noteFailure, for a VM with a readable configuration that cannot be used.
func noteFault(file string, fault error, log *slog.Logger) {
	cfg, _, err := config.Load(file)
	if err != nil {
		return
	}
	vm, err := prepare.New(cfg, file)
	if err != nil {
		return
	}
	if _, err := os.Stat(vm.DataDir); err == nil {
		writeFailure(vm.DataDir, fault, log)
	}
}

func writeFailure(dataDir string, err error, log *slog.Logger) {
	failure := record.StartFailure{At: time.Now().UTC().Truncate(time.Second), Message: launch.Cause(err)}
	if e := failure.Write(dataDir); e != nil {
		log.Warn("the failed start is not recorded", "err", e)
	}
}
