package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"vmop/cli"
	"vmop/comingfrom"
	"vmop/durable"
	"vmop/regular"
)

const convertText = "convert reads another program's definition of a VM, and prints a configuration. On standard\n" +
	"error it reports of each part of the definition what becomes of it:\n\n" +
	"  kept     it is carried over\n" +
	"  changes  it is different here, or left to the VM type\n" +
	"  dropped  it has no effect here\n" +
	"  blocks   there is no configuration until something has been done: change the\n" +
	"           definition as the next line says, or leave the part out (--without)\n\n" +
	"It exits with 1 if something blocks. Neither disks nor the other program's files are\n" +
	"touched. What can be read: %s."

const convertExamples = `  virsh dumpxml --inactive web | vmrunner convert - > web.yaml
  vmrunner convert web.xml -o ~/.config/vmrunner/web.yaml
  vmrunner convert web.xml --bridge lan=br0 --without devices/hostdev`

// conversion is what the flags of convert say.
type conversion struct {
	from, to string
	quiet    bool
	bridges  map[string]string
	without  []string
}

func newConvert() *cobra.Command {
	var c conversion
	cmd := &cobra.Command{
		Use: "convert FILE", Short: "Make a configuration of another program's VM",
		Long: fmt.Sprintf(convertText, strings.Join(formats(), ", ")), Example: convertExamples,
		GroupID: groupNamed,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.UsageError{Err: errors.New("want one file; - is standard input")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, args[0]) },
	}
	p := cmd.Flags()
	p.StringVar(&c.from, "from", "",
		"whose definition it is: "+strings.Join(formats(), ", ")+"\n(default: as its content says)")
	p.StringVarP(&c.to, "output", "o", "", "write the configuration into this new `file`")
	p.StringToStringVar(&c.bridges, "bridge", nil, "`network=bridge`: the host's bridge of a network that the definition\n"+
		"names; may be repeated")
	p.StringArrayVar(&c.without, "without", nil,
		"leave out the part of this `path`, as the report has it; may be\nrepeated")
	p.BoolVarP(&c.quiet, "quiet", "q", false, "report only what changes or blocks")
	cli.CompleteFlag(cmd, "from", formats()...)
	cli.CompleteFile(cmd, "output", "yaml", "yml")
	return cmd
}

// formats are the names of what can be read.
func formats() []string {
	var all []string
	for _, format := range comingfrom.Formats() {
		all = append(all, string(format))
	}
	return all
}

func (c *conversion) run(cmd *cobra.Command, file string) error {
	text, file, err := definition(cmd, file)
	if err != nil {
		return err
	}
	if c.from != "" && !slices.Contains(formats(), c.from) {
		return cli.UsageError{Err: fmt.Errorf("--from %s: want one of %s", c.from, strings.Join(formats(), ", "))}
	}
	result, err := comingfrom.Convert(file, text, comingfrom.Options{
		Format: comingfrom.Format(c.from), Without: c.without, Bridges: c.bridges,
	})
	if err != nil {
		return err
	}
	c.report(cmd.ErrOrStderr(), result)
	switch {
	case result.Config == nil:
		return errors.New("there is no configuration: see what \"blocks\"")
	case c.to == "":
		_, err = cmd.OutOrStdout().Write(result.Config)
		return err
	}
	if err := durable.Create(c.to, result.Config, configMode); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	return nil
}

// configMode is that of a configuration, which may have passwords of cloud-init.
const configMode = 0o600

// definition returns a text, and by what its relative paths are to be understood.
func definition(cmd *cobra.Command, file string) (text []byte, name string, err error) {
	if file == "-" {
		text, err = io.ReadAll(io.LimitReader(cmd.InOrStdin(), comingfrom.LargestInput+1))
		file = "stdin"
	} else {
		text, err = regular.ReadFile(file, comingfrom.LargestInput)
	}
	if err != nil {
		return nil, "", fmt.Errorf("read the definition: %w", err)
	}
	name, err = filepath.Abs(file)
	return text, name, err
}

// report prints what becomes of each part.
func (c *conversion) report(out io.Writer, r *comingfrom.Result) {
	for _, f := range r.Findings {
		if c.quiet && f.Effect != comingfrom.Changes && f.Effect != comingfrom.Blocks {
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
		r.Count(comingfrom.Kept), r.Count(comingfrom.Changes), r.Count(comingfrom.Dropped), r.Count(comingfrom.Blocks))
}
