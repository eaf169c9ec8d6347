package apply

import (
	"context"

	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// ConfigMap writes the runner's configuration, including what the VM is given, unless stays is set. It returns the
// version that it wrote, or 0 if it wrote no version.
func (r *Round) ConfigMap(ctx context.Context, stays bool, given objects.Given) (
	version uint64, did decide.Report,
) {
	if stays {
		return 0, did
	}
	for _, p := range objects.LoggingProblems(r.VM) {
		did.Problem(decide.ReasonLogging, p.String())
	}
	record, err := r.Class.Taken.Record()
	if err != nil {
		did.Stop(nil, err)
		return 0, did
	}
	configuration, err := objects.ConfigMap(r.VM, r.Settings, given, record)
	if err != nil {
		did.Stop(decide.Stalled{Reason: decide.ReasonRefused, Message: decide.Readable(err.Error())}, nil)
		return 0, did
	}
	hash := configuration.Annotations[objects.AnnotationApplied]
	version, o, err := r.ensureObject(ctx, objects.KindConfigMap, hash, configuration, r.Snapshot.ConfigMap)
	did.Stop(o, err)
	return version, did
}
