package vm

import (
	"context"

	"vmop/manager/objects"
)

// makeConfigMap writes the runner's configuration.
func (c *reconciler) makeConfigMap(ctx context.Context, v *visit) (outcome, error) {
	if v.distrusted {
		return nil, nil
	}
	for _, p := range objects.LoggingProblems(v.vm) {
		v.problems = append(v.problems, problem{reasonLogging, p.String()})
	}
	configuration, err := objects.ConfigMap(v.vm, v.settings)
	if err != nil {
		return stalled{reasonRefused, readable(err.Error())}, nil
	}
	var o outcome
	v.configured, o, err = c.ensure(ctx, v, configMapKind, configuration.Annotations[objects.AnnotationApplied], configuration, v.configMap)
	return o, err
}
