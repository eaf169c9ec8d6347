package manager

import (
	"context"
	"fmt"
	"log/slog"

	ctrl "sigs.k8s.io/controller-runtime"

	"vmop/manager/store"
	"vmop/manager/trace"
)

// trace has traces made of starts, if they are wanted. The store must not be followed yet.
func (s *starts) trace(ctx context.Context, mgr ctrl.Manager, version, namespace string, vms *store.Store,
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
	log.Info("traces of starts are sent") // where to, and as whom, may be secret
	return mgr.Add(store.Always(s.tracer.Run))
}
