package manager

import (
	"context"
	"fmt"
	"log/slog"

	"vmop/manager/trace"
	"vmop/manager/vm"
)

// newTracer returns who makes traces of the starts of VMs; nil if none are wanted.
func newTracer(ctx context.Context, version, namespace string, vms *vm.Controller,
	log *slog.Logger,
) (*trace.Tracer, error) {
	t, err := trace.New(ctx, trace.Options{Version: version, Namespace: namespace, VM: vms.Store().VM, Log: log})
	if err != nil {
		return nil, fmt.Errorf("set up traces: %w", err)
	}
	if t != nil {
		vms.Store().OnChange(t.Changed)
		log.Info("traces of starts are sent") // where to, and as whom, may be secret
	}
	return t, nil
}
