package revision

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"

	"vmop/authoring/sample"
	"vmop/internal/yamlfile"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// A Revision is one version of VM types. The caller must close it.
type Revision struct {
	// Name is the argument with which the user selected the version.
	Name string
	// Single is the name of the only type; empty for a folder.
	Single string

	dir    string // the folder with the files; empty for a stock type
	launch Launch
	// own are the archives of the types if the version has its own library, otherwise nil.
	own   map[string][]byte
	close []func() error
}

// Launch evaluates a type.
type Launch func(ctx context.Context, t Type, spec vmspec.Spec, host vmtypes.Host) (*plan.Plan, error)

// A Type is the type in an archive. Without an archive, Name is a name from a configuration: a custom type in the
// folder Dir, a stock type, or the absolute path of a file.
type Type struct {
	Dir, Name string
	Archive   []byte
}

// Open opens the version that a name refers to: a stock type, a file, a folder, or an archive (vmtype.txtar of a data
// directory). If no such thing exists, the name is a git revision: REV:PATH, or REV for the files of the working
// directory. All types are evaluated with launch.
func Open(ctx context.Context, name string, launch Launch) (*Revision, error) {
	r := &Revision{Name: name, launch: launch}
	if err := r.openRevision(ctx, name); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *Revision) openRevision(ctx context.Context, name string) error {
	if vmtypes.IsStock(name) {
		r.Single = name
		return nil
	}
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r.openGit(ctx, name)
	case err != nil:
		return fmt.Errorf("open a version of VM types: %w", err)
	case info.IsDir():
		return r.openFolder(name)
	case filepath.Ext(name) == ".star":
		r.Single = strings.TrimSuffix(filepath.Base(name), ".star")
		return r.openFolder(filepath.Dir(name))
	}
	return r.openArchive(name)
}

// Close removes the temporary files of the version.
func (r *Revision) Close() error {
	var errs []error
	for _, f := range slices.Backward(r.close) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// openFolder opens a folder of custom types. The folder can also be a copy of the stock library, which then replaces
// the program's library.
func (r *Revision) openFolder(dir string) error {
	r.dir = dir
	for _, file := range []string{"standard.star", "lib/qemu.star"} {
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			return nil
		}
	}
	r.own = map[string][]byte{}
	var modules []txtar.File
	for _, pattern := range []string{"*.star", "lib/*.star"} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err // the pattern is malformed
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				return fmt.Errorf("read a copy of the library: %w", err)
			}
			modules = append(modules,
				txtar.File{
					Name: "@vmtypes//" + filepath.ToSlash(strings.TrimPrefix(path, filepath.Clean(dir)+"/")),
					Data: text,
				})
		}
	}
	comment := fmt.Sprintf("API version %d\n", vmtypes.APIVersion)
	if slices.ContainsFunc(modules, func(m txtar.File) bool { return m.Name == generationModule }) {
		comment += "Generation " + vmtypes.Generation + "\n"
	}
	for _, m := range modules {
		if name, isType := strings.CutSuffix(strings.TrimPrefix(m.Name, "@vmtypes//"), ".star"); isType &&
			!strings.Contains(name, "/") {
			entry := "VM type " + m.Name + "\n"
			r.own[name] = txtar.Format(&txtar.Archive{Comment: []byte(entry + comment), Files: modules})
		}
	}
	return nil
}

// generationModule is a module that libraries have since there are generations. Older libraries must keep the defaults
// of their time.
const generationModule = vmtypes.StockPrefix + "lib/generation.star"

func (r *Revision) openArchive(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read an archive of a VM type: %w", err)
	}
	if r.Single, err = vmtypes.ArchivedName(text); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	r.own = map[string][]byte{r.Single: text}
	return nil
}

// Types returns the names of the types of this version, sorted.
func (r *Revision) Types() []string {
	var list []string
	switch {
	case r.Single != "":
		list = []string{r.Single}
	case r.own != nil:
		for name := range r.own {
			list = append(list, name)
		}
	default:
		modules, _ := r.Modules() // Plan will report the error
		for file := range modules {
			if name := strings.TrimSuffix(file, ".star"); !strings.HasSuffix(name, "_test") && name != "testing" &&
				!vmtypes.IsStock(name) {
				list = append(list, name)
			}
		}
	}
	slices.Sort(list)
	return list
}

// Modules returns the sources, including tests, by their names in load statements.
func (r *Revision) Modules() (map[string]string, error) {
	if r.own == nil {
		source, err := vmtypes.ReadSource(r.dir)
		for _, name := range slices.Sorted(maps.Keys(source.Refused)) {
			err = errors.Join(err, fmt.Errorf("read the modules of %s: %s", r.Name, source.Refused[name]))
		}
		return source.Modules, err
	}
	all := map[string]string{}
	for _, text := range r.own {
		for _, file := range txtar.Parse(text).Files {
			all[file.Name] = string(file.Data)
		}
	}
	return all, nil
}

// Samples returns the samples next to the types, if any.
func (r *Revision) Samples() (list []*sample.Sample, err error) {
	err = r.EachSample(appendTo(&list))
	return list, err
}

// EachSample calls each with the samples next to the types, if any, one at a time. An error of each ends the reading.
func (r *Revision) EachSample(each func(*sample.Sample) error) error {
	if r.dir == "" {
		return nil
	}
	return EachSample(r.dir, false, each)
}

// ReadSamples reads the samples of a folder. If must is set, a folder without samples is an error. If some samples
// cannot be read, it returns the others together with all errors.
func ReadSamples(dir string, must bool) (list []*sample.Sample, err error) {
	err = EachSample(dir, must, appendTo(&list))
	return list, err
}

func appendTo(list *[]*sample.Sample) func(*sample.Sample) error {
	return func(s *sample.Sample) error {
		*list = append(*list, s)
		return nil
	}
}

// EachSample calls each with the samples of a folder, like ReadSamples, one at a time. An error of each ends the
// reading; samples that cannot be read don't.
func EachSample(dir string, must bool, each func(*sample.Sample) error) error {
	paths, err := sample.Find(dir)
	if err != nil {
		return err
	}
	if len(paths) == 0 && must {
		return fmt.Errorf("there are no samples in %s: no NAME.txtar archives or configurations", dir)
	}
	var all yamlfile.Faults
	var unread error
	for _, path := range paths {
		s, err := sample.Read(path)
		var faults yamlfile.Faults
		switch {
		case errors.As(err, &faults):
			all = append(all, faults...)
		case err != nil:
			unread = errors.Join(unread, err)
		default:
			if err := each(s); err != nil {
				return err
			}
		}
	}
	if all != nil {
		return errors.Join(all, unread)
	}
	return unread
}

// Plan returns the plan of a type of this version for a sample.
func (r *Revision) Plan(ctx context.Context, vmType string, s *sample.Sample) (*plan.Plan, error) {
	if r.own == nil {
		if vmType == r.Single && r.dir != "" {
			file, err := filepath.Abs(filepath.Join(r.dir, vmType+".star"))
			if err != nil {
				return nil, err
			}
			vmType = file
		}
		return r.launch(ctx, Type{Dir: r.dir, Name: vmType}, s.VM, s.Host.Host())
	}
	text, ok := r.own[vmType]
	if !ok {
		return nil, &vmtypes.Error{Message: fmt.Sprintf("there is no VM type %q; known are %s", vmType,
			strings.Join(r.Types(), ", "))}
	}
	return r.launch(ctx, Type{Name: vmType, Archive: text}, s.VM, s.Host.Host())
}
