package sample

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"

	"vmop/internal/atomicfile"
	"vmop/internal/yamlfile"
	"vmop/runner/config"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// The suffixes of samples: archives with a plan, and configurations.
const (
	Suffix       = ".txtar"
	configSuffix = ".yaml"
)

// Folder is the subfolder of a folder of types that can also contain samples.
const Folder = "testdata"

// A Sample is a VM for trying a VM type.
type Sample struct {
	// Path is the path of the file.
	Path string
	// Type is the name of the VM type.
	Type string
	// VM is the vm section with its defaults.
	VM vmspec.Spec
	// Host is the host of the VM.
	Host HostFacts
	// NeedsQEMU is the oldest version of QEMU that can run the VM, such as "9.1"; "" means any version.
	NeedsQEMU string
	// Text is the plan in the archive; empty if there is none.
	Text string
	// TextLine is the line of the file at which Text begins, counted from 1; 0 if there is no text.
	TextLine int

	config *config.Config
	within excerpt // the vm section in an archive
	marker int     // the line before the vm section
	keeps  bool    // the file is an archive
}

// Find returns the paths of the samples in a folder and in its subfolder testdata, sorted by folder and name. It
// ignores YAML files without a section "/Runner".
func Find(dir string) ([]string, error) {
	var found []string
	for _, folder := range []string{dir, filepath.Join(dir, Folder)} {
		entries, err := os.ReadDir(folder)
		if folder != dir && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look for samples: %w", err)
		}
		for _, e := range entries {
			path := filepath.Join(folder, e.Name())
			if is, err := isSample(path, e); err != nil {
				return nil, fmt.Errorf("look for samples: %w", err)
			} else if is {
				found = append(found, path)
			}
		}
	}
	return found, nil
}

func isSample(path string, e fs.DirEntry) (bool, error) {
	switch {
	case e.IsDir():
		return false, nil
	case filepath.Ext(path) == Suffix:
		return true, nil
	case filepath.Ext(path) != configSuffix:
		return false, nil
	}
	text, err := os.ReadFile(path)
	return strings.Contains(string(text), "/Runner") || strings.Contains(string(text), "_Runner"), err
}

// Read reads a sample. If the content is invalid, the error is a yamlfile.Faults with all errors. settings change the
// VM before it is checked; see config.Load.
func Read(path string, settings ...string) (*Sample, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read sample: %w", err)
	}
	if filepath.Ext(path) == configSuffix {
		return readConfig(path, data, settings)
	}
	return readArchive(path, data, settings)
}

// readConfig reads a configuration in the same way as the runner. Relative paths begin at its folder.
func readConfig(path string, data []byte, settings []string) (*Sample, error) {
	cfg, _, err := config.Parse(path, data, settings...)
	if err != nil {
		return nil, err
	}
	s := &Sample{Path: path, Type: cfg.VMType, config: cfg}
	var faults yamlfile.Faults
	whole := excerpt{file: path, lines: strings.Split(string(data), "\n"), first: 1}
	if s.NeedsQEMU, faults = whole.readNeeds("#", len(whole.lines)); faults != nil {
		return nil, faults
	}
	spec := cfg.VM
	if spec.UUID == "" {
		spec.UUID = UUID
	}
	if cfg.CloudInit != nil {
		s.Host.CloudInitImage = "/run/vm/cloud-init.img"
	}
	if cfg.Sysprep != nil {
		s.Host.SysprepImage = "/run/vm/sysprep.img"
	}
	here, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("folder of %s: %w", path, err)
	}
	s.Host.folder = here
	s.VM, _ = vmspec.ResolveResources(spec.WithOtherDefaults().Within(here), usualMode) // usualMode never fails
	return s, nil
}

// usualMode returns the assumed type of the file at a path: a block device in /dev, otherwise a regular file.
func usualMode(path string) (fs.FileMode, error) {
	if strings.HasPrefix(path, "/dev/") {
		return fs.ModeDevice, nil
	}
	return 0, nil
}

// Name returns the name without folder and suffix.
func (s *Sample) Name() string {
	return strings.TrimSuffix(strings.TrimSuffix(filepath.Base(s.Path), Suffix), configSuffix)
}

// UseHost selects the actual host for a configuration, because users write configurations for their own hosts. It has
// no effect on an archive, which describes its host.
func (s *Sample) UseHost(find Finder) {
	if !s.keeps {
		s.Host.there = find
	}
}

// Keeps reports whether the file can store the plan.
func (s *Sample) Keeps() bool { return s.keeps }

// Plan returns the current plan of the library's VM type. If the type rejects an option, the error is of type
// yamlfile.Faults.
func (s *Sample) Plan(ctx context.Context, library *vmtypes.Library) (*plan.Plan, error) {
	t, err := library.Load(ctx, s.Type)
	if err != nil {
		return nil, err
	}
	p, err := t.Launch(ctx, s.VM, s.Host.Host())
	return p, s.Locate(err)
}

// Locate converts an error of a launch about the VM's fields to yamlfile.Faults with places in the file. It returns
// other errors unchanged.
func (s *Sample) Locate(err error) error {
	var fields *vmtypes.FieldsError
	if !errors.As(err, &fields) || s.config == nil {
		return err
	}
	located := faultsOf(s.config.Locate(fields.Faults))
	if s.keeps {
		for i, f := range located {
			located[i] = s.within.faultInFile(f, s.marker)
		}
	}
	return located
}

// Write stores a plan in the archive. It fails for a configuration.
func (s *Sample) Write(text string) error {
	if !s.keeps {
		return fmt.Errorf("write %s: a configuration has no place for a plan", s.Path)
	}
	data, err := os.ReadFile(s.Path)
	if err != nil {
		return fmt.Errorf("write sample: %w", err)
	}
	archive := txtar.Parse(data)
	at := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == planSection })
	if at < 0 {
		at = len(archive.Files)
		archive.Files = append(archive.Files, txtar.File{Name: planSection})
	}
	archive.Files[at].Data = []byte(text)
	s.Text = text
	if err := atomicfile.Rewrite(s.Path, txtar.Format(archive)); err != nil {
		return fmt.Errorf("write sample: %w", err)
	}
	return nil
}

// typeFor returns the type in the folder that matches the name of a sample, or the standard type.
func typeFor(path string) string {
	folder := filepath.Dir(path)
	if filepath.Base(folder) == Folder {
		folder = filepath.Dir(folder)
	}
	name := strings.TrimSuffix(filepath.Base(path), Suffix)
	for name != "" {
		if _, err := os.Stat(filepath.Join(folder, name+".star")); err == nil {
			return name
		}
		name = name[:max(0, strings.LastIndexByte(name, '-'))]
	}
	return config.DefaultVMType
}
