package vmtypes

import (
	"fmt"

	"go.starlark.net/starlark"

	"vmop/vmtypes/plan"
)

// hotplugAffinity implements hotplug.affinity(cpus).
func hotplugAffinity(
	_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	var cpus starlark.Iterable
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "cpus", &cpus); err != nil {
		return nil, err
	}
	var r plan.Affinity
	iter := cpus.Iterate()
	defer iter.Done()
	var v starlark.Value
	for i := 0; iter.Next(&v); i++ {
		var list []int
		var err error
		switch v := v.(type) {
		case starlark.NoneType:
		case starlark.Int:
			list = make([]int, 1)
			err = starlark.AsInt(v, &list[0])
		case starlark.Iterable:
			list, err = hostCPUs(fmt.Sprintf("cpus[%d]", i), v)
		default:
			err = fmt.Errorf("cpus[%d] must be the number of a host CPU, a list of such numbers, or None, not %s",
				i, withArticle(v))
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.Name(), err)
		}
		r.CPUs = append(r.CPUs, list)
	}
	return newRule(r), nil
}

// hostCPUs reads a list of CPU numbers of the host.
func hostCPUs(field string, from starlark.Iterable) ([]int, error) {
	var list []int
	if from == nil {
		return nil, nil
	}
	err := walkElements(field, from, 0, "the number of a host CPU", func(v starlark.Value) bool {
		n, ok := v.(starlark.Int)
		var number int
		if ok = ok && starlark.AsInt(n, &number) == nil; ok {
			list = append(list, number)
		}
		return ok
	})
	return list, err
}
