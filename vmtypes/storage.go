package vmtypes

import (
	"errors"

	"go.starlark.net/starlark"
)

// aioBuiltin implements host.aio(program): a tuple of names, or None if they are unknown.
func (h hostValue) aioBuiltin(
	_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	var program string
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "program", &program); err != nil {
		return nil, err
	}
	if program == "" {
		return nil, errors.New("host.aio: program is empty; it is the path of QEMU's program")
	}
	var names starlark.Tuple
	if h.host.AIO != nil {
		for _, name := range h.host.AIO(program) {
			names = append(names, starlark.String(name))
		}
	}
	if len(names) == 0 {
		return starlark.None, nil
	}
	return names, nil
}

// directIOBuiltin implements host.directIO(path, format="raw"): True, False, or None if it is unknown.
func (h hostValue) directIOBuiltin(
	_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	path, format := "", "raw"
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "path", &path, "format?", &format); err != nil {
		return nil, err
	}
	if path == "" {
		return nil, errors.New("host.directIO: path is empty; it is the path of an image")
	}
	if h.host.DirectIO == nil {
		return starlark.None, nil
	}
	is := h.host.DirectIO(path, format)
	if is == nil {
		return starlark.None, nil
	}
	return starlark.Bool(*is), nil
}
