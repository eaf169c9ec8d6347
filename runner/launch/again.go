package launch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"time"

	"vmop/process"
	"vmop/runner/lock"
	"vmop/runner/prepare"
	"vmop/vmtypes/plan"
)

// unreachedTime is what a helper that cannot be reached has to end.
const unreachedTime = 2 * time.Second

// Again starts a helper again whose process has ended, and connects to its socket; without
// one, the helper is connected with the sockets of QEMU. The lock that is held is the
// machine's.
func Again(ctx context.Context, vm *prepare.VM, held *lock.Lock, name, socket string, log *slog.Logger,
) (*process.Process, *os.File, error) {
	i := slices.IndexFunc(vm.Plan.Helpers, func(h plan.Process) bool { return h.Name == name })
	if i < 0 {
		return nil, nil, fmt.Errorf("the plan has no helper %s", name)
	}
	if err := os.Remove(socket); socket != "" && err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil, fmt.Errorf("remove the socket of the process that has ended: %w", err)
	}
	if err := takeTPM(vm, log); err != nil {
		return nil, nil, fmt.Errorf("take over the state of the TPM: %w", err)
	}
	h, named := vm.Plan.Helpers[i], map[string]*os.File{}
	for _, l := range vm.Plan.Listeners {
		for name, open := range map[string]func(string) (*os.File, error){l.Name: listen, plan.Client(l.Name): dial} {
			if !slices.Contains(h.Descriptors(), name) {
				continue
			}
			f, err := open(l.Path)
			if err != nil {
				return nil, nil, fmt.Errorf("open the socket %s for %s: %w", l.Path, h.Name, err)
			}
			defer f.Close() // the process has its own
			named[name] = f
		}
	}
	p, err := startPlanned(vm, i, nil, named, held.Files(), log)
	if err != nil {
		return nil, nil, err
	}
	conn, err := connect(ctx, p, h, socket)
	if err != nil {
		return nil, nil, errors.Join(err, p.Terminate(context.WithoutCancel(ctx), unreachedTime))
	}
	return p, conn, nil
}

// connect connects with a helper when it is ready, if it has a socket.
func connect(ctx context.Context, p *process.Process, h plan.Process, socket string) (*os.File, error) {
	if awaited(h) {
		if err := waitReady(ctx, p, h); err != nil {
			return nil, err
		}
	}
	if socket == "" {
		return nil, nil
	}
	conn, err := dial(socket)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", h.Name, err)
	}
	return conn, nil
}

// dial returns a connection with a unix socket as a file.
func dial(socket string) (*os.File, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.File()
}
