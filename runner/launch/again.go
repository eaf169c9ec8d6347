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

	"vmop/internal/childprocess"
	"vmop/runner/adopt/lock"
	"vmop/runner/prepare"
	"vmop/vmtypes/plan"
)

// unreachedTime is how long a helper that cannot be reached may take to exit.
const unreachedTime = 2 * time.Second

// Again restarts a helper that has ended and connects to its socket. If socket is empty, the helper gets
// connections to QEMU's sockets instead. held is the machine's lock.
func Again(ctx context.Context, vm *prepare.VM, held *lock.Lock, name, socket string, log *slog.Logger,
) (*childprocess.Process, *os.File, error) {
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
		for name, open := range map[string]func(string) (*os.File, error){
			l.Name:              listenAt,
			plan.Client(l.Name): dialSocket,
		} {
			if !slices.Contains(h.Descriptors(), name) {
				continue
			}
			f, err := open(l.Path)
			if err != nil {
				return nil, nil, fmt.Errorf("open the socket %s for %s: %w", l.Path, h.Name, err)
			}
			defer f.Close() // the process has its own descriptor
			named[name] = f
		}
	}
	p, err := startPlanned(vm, i, nil, named, held.Files(), log)
	if err != nil {
		return nil, nil, err
	}
	conn, err := connectHelper(ctx, p, h, socket)
	if err != nil {
		return nil, nil, errors.Join(err, p.Terminate(context.WithoutCancel(ctx), unreachedTime))
	}
	return p, conn, nil
}

// connectHelper waits until a helper is ready, and connects to its socket if it has one.
func connectHelper(ctx context.Context, p *childprocess.Process, h plan.Process, socket string) (*os.File, error) {
	if isAwaited(h) {
		if err := waitReady(ctx, p, h); err != nil {
			return nil, err
		}
	}
	if socket == "" {
		return nil, nil
	}
	conn, err := dialSocket(socket)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", h.Name, err)
	}
	return conn, nil
}

// dialSocket connects to a unix socket and returns the connection as a file.
func dialSocket(socket string) (*os.File, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.File()
}
