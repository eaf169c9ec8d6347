package manager

import (
	"context"
	"fmt"
	"log/slog"

	ctrl "sigs.k8s.io/controller-runtime"

	"vmop/manager/store"
	"vmop/manager/vm/trace"
)

// traceStarts sets up traces of starts if they are enabled. It must be called before the store follows the API server.
func (s *starts) traceStarts(ctx context.Context, mgr ctrl.Manager, version, namespace string, vms *store.Store,
	log *slog.Logger,
) (err error) {
	s.tracer, err = trace.New(ctx, trace.Options{Version: version, Namespace: namespace, VM: vms.VM, Log: log})
	if err != nil {
		return fmt.Errorf("set up traces: %w", err)
	}
	if s.tracer == nil {
		return nil
	}
	vms.OnChange(s.tracer.Changed)
	log.Info("traces of starts are sent") // do not log the address and user, which may be secret
	return mgr.Add(store.Always(s.tracer.Run))
}
