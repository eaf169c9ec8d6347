package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"vmop/internal/atomicfile"
	"vmop/internal/cli"
	"vmop/internal/readfile"
	"vmop/runner/config"
	"vmop/runner/inventory"
	"vmop/vmspec"
	"vmop/vmspec/convert"
)

const convertText = "Read another program's definition of a VM, and print a configuration. On standard\n" +
	"error it reports the result for each part of the definition:\n\n" +
	"  kept     it is carried over\n" +
	"  changes  it is different here, or left to the VM type\n" +
	"  dropped  it has no effect here\n" +
	"  blocks   no configuration is written until you change the definition as the next\n" +
	"           line shows, or leave the part out (--without)\n\n" +
	"The exit code is 1 if a part blocks. Disks and the other program's files are not touched.\n" +
	"Supported formats: %s."

const convertExamples = `  virsh dumpxml --inactive web | vmrunner convert - > web.yaml
  vmrunner convert web.xml -o ~/.config/vmrunner/web.yaml
  vmrunner convert web.xml --bridge lan=br0 --without devices/hostdev`

// conversion contains the flags of convert.
type conversion struct {
	from, to string
	quiet    bool
	bridges  map[string]string
	without  []string
	// templates is the folder of Lima's templates; empty means the folders of an installed Lima.
	templates string
}

func newConvert() *cobra.Command {
	var c conversion
	cmd := &cobra.Command{
		Use: "convert FILE", Short: "Convert another program's VM to a configuration",
		Long: fmt.Sprintf(convertText, strings.Join(inputFormats(), ", ")), Example: convertExamples,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.UsageError{Err: errors.New("convert requires one file; - is standard input")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return c.runConversion(cmd, args[0]) },
	}
	p := cmd.Flags()
	p.StringVar(&c.from, "from", "",
		"`FORMAT` of the definition: "+strings.Join(inputFormats(), ", ")+"\n(default detected from the content)")
	p.StringVarP(&c.to, "output", "o", "", "new `FILE` for the configuration (default standard output)")
	p.StringToStringVar(&c.bridges, "bridge", nil, "bridge for a network in FILE, `NETWORK=BRIDGE`; may be repeated")
	p.Lookup("bridge").DefValue = "" // pflag would show an empty list
	p.StringArrayVar(&c.without, "without", nil,
		"leave out the part at this `PATH`, as shown in the report; may be\nrepeated")
	p.StringVar(&c.templates, "lima-templates", "", "`DIR` with Lima's templates, for \"base: template:NAME\" (default\n"+
		strings.Join(limaFolders(), ", ")+")")
	cli.CompleteFolder(cmd, "lima-templates")
	p.BoolVarP(&c.quiet, "quiet", "q", false, "report only parts that change or block")
	cli.CompleteFlag(cmd, "from", inputFormats()...)
	cli.CompleteFile(cmd, "output", "yaml", "yml")
	return cmd
}

// inputFormats returns the names of the input formats.
func inputFormats() []string {
	var all []string
	for _, format := range convert.Formats() {
		all = append(all, string(format))
	}
	return all
}

func (c *conversion) runConversion(cmd *cobra.Command, file string) error {
	text, file, err := readDefinition(cmd, file)
	if err != nil {
		return err
	}
	if c.from != "" && !slices.Contains(inputFormats(), c.from) {
		return cli.UsageError{Err: fmt.Errorf("--from %s: must be one of %s", c.from,
			strings.Join(inputFormats(), ", "))}
	}
	result, err := convert.Convert(file, text, convert.Options{
		Format: convert.Format(c.from), Without: c.without, Bridges: c.bridges, Base: c.readTemplate,
	})
	if err != nil {
		return err
	}
	c.reportParts(cmd.ErrOrStderr(), result)
	switch {
	case result.Config == nil:
		return errors.New("there is no configuration: see what \"blocks\"")
	case c.to == "":
		c.printNext(cmd.ErrOrStderr(), result)
		_, err = cmd.OutOrStdout().Write(result.Config)
		return err
	}
	if err := atomicfile.Create(c.to, result.Config, configMode); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	c.printNext(cmd.ErrOrStderr(), result)
	return nil
}

// printNext prints what the first start still needs, and its command.
func (c *conversion) printNext(out io.Writer, r *convert.Result) {
	fmt.Fprintln(out, "next:")
	start := "save the configuration as a file (-o FILE) and start the VM: vmrunner run -c FILE"
	if c.to != "" {
		start = "start the VM: " + findStartCommand(c.to)
	}
	steps := append(r.NextSteps(unusableFile), start)
	for i, step := range steps {
		fmt.Fprintf(out, "%4d. %s\n", i+1, cli.Printable(step))
	}
}

// findStartCommand returns the command that starts the VM of a configuration.
func findStartCommand(file string) string {
	file, err := filepath.Abs(file)
	folder, name := filepath.Split(file)
	for _, place := range inventory.Places(config.HostEnv()) {
		if err == nil && filepath.Clean(folder) == place.Folder {
			return "vmrunner start " + strings.TrimSuffix(name, filepath.Ext(name)) + " --wait"
		}
	}
	return "vmrunner run -c " + file
}

// unusableFile returns the reason why this user can't use a file, or "".
func unusableFile(file string, write bool) string {
	mode, verb := uint32(unix.R_OK), "read"
	if write {
		mode, verb = unix.R_OK|unix.W_OK, "write"
	}
	if err := unix.Access(file, mode); err != nil {
		return fmt.Sprintf("cannot %s %s: %v", verb, file, err)
	}
	return ""
}

// limaFolders returns the folders where an installed Lima keeps its templates.
func limaFolders() []string {
	return []string{"/usr/share/lima/templates", "/usr/local/share/lima/templates"}
}

// readTemplate reads a template that another template of Lima is based on: template:NAME, or a file next to it.
func (c *conversion) readTemplate(locator, from string) (text []byte, file string, err error) {
	name, isTemplate := strings.CutPrefix(locator, "template:")
	if !isTemplate {
		if path, isFile := strings.CutPrefix(locator, "file://"); isFile {
			locator = path
		} else if scheme, _, has := strings.Cut(locator, ":"); has && !strings.Contains(scheme, "/") {
			return nil, "", fmt.Errorf("the template %s is not on this computer", locator)
		}
		file = vmspec.Within(filepath.Dir(from), locator)
		text, err = readfile.ReadFile(file, convert.LargestInput)
		return text, file, err
	}
	name = strings.TrimPrefix(name, "//")
	folders := limaFolders()
	if c.templates != "" {
		folders = []string{c.templates}
	}
	for _, folder := range folders {
		if !filepath.IsLocal(name) {
			break
		}
		file = filepath.Join(folder, name+".yaml")
		if text, err = readfile.ReadFile(file, convert.LargestInput); !errors.Is(err, fs.ErrNotExist) {
			return text, file, err
		}
	}
	return nil, "", fmt.Errorf("%s is not in %s; name the folder with Lima's templates: --lima-templates DIR", locator,
		strings.Join(folders, " or "))
}

// configMode is the file mode of a configuration, which may contain passwords for cloud-init.
const configMode = 0o600

// readDefinition returns the text of a definition, and the path that its relative paths refer to.
func readDefinition(cmd *cobra.Command, file string) (text []byte, name string, err error) {
	if file == "-" {
		text, err = io.ReadAll(io.LimitReader(cmd.InOrStdin(), convert.LargestInput+1))
		file = "stdin"
	} else {
		text, err = readfile.ReadFile(file, convert.LargestInput)
	}
	if err != nil {
		return nil, "", fmt.Errorf("read the definition: %w", err)
	}
	name, err = filepath.Abs(file)
	return text, name, err
}

// reportParts prints the effect of the conversion on each part.
func (c *conversion) reportParts(out io.Writer, r *convert.Result) {
	for _, f := range r.Findings {
		if c.quiet && f.Effect != convert.Changes && f.Effect != convert.Blocks {
			continue
		}
		path := ""
		if f.Path != "" {
			path = f.Path + ": "
		}
		fmt.Fprintf(out, "%-8s %4d: %s\n", f.Effect, f.Line, cli.Printable(path+f.Message))
		if f.Hint != "" {
			fmt.Fprintf(out, "               -> %s\n", cli.Printable(f.Hint))
		}
	}
	fmt.Fprintf(out, "%s: %d kept, %d changed, %d dropped, %d blocking\n", r.Format,
		r.Count(convert.Kept), r.Count(convert.Changes), r.Count(convert.Dropped), r.Count(convert.Blocks))
}
