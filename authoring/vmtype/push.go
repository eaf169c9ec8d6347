package vmtype

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"vmop/authoring/share"
	"vmop/authoring/vmtypestest"
	"vmop/internal/cli"
	"vmop/internal/readfile"
	"vmop/vmtypes"
	"vmop/vmtypes/artifact"
	"vmop/vmtypes/signature"
)

func newPush(f Flags) *cobra.Command {
	p := push{folder: f.Folder}
	cmd := &cobra.Command{
		Use:   "push REF [TYPE]",
		Short: "Put a VM type into a registry",
		Long: "Write a VM type to a container registry as an OCI artifact, and print the\n" +
			"reference with its digest. TYPE is a file, the name of a type, or a folder with one type; the\n" +
			"current folder by default. The artifact contains the type, the modules that it loads except\n" +
			"the stock library, its tests and its samples. The same files have the same digest.\n\n" +
			"--sign adds a signature that \"vendor --key\", policies, managers and cosign can verify.\n\n" +
			"The files are first tested as with \"test\", without other files of the folder. If a test\n" +
			"fails, nothing is written.\n\n" + registryHelp + "\n\n" +
			"Exit codes: 0 success, 1 a test or the registry has failed, 2 wrong usage.",
		Example: "  vmrunner vmtype push registry.example.org/types/asset:1.2 --sign key.pem\n" +
			"  vmrunner vmtype push registry.example.org/types/asset:1.2 types/asset.star --dry-run\n" +
			"  vmrunner vmtype push types/asset:1.2 asset --layout out && oras cp …",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return cli.UsageError{Err: fmt.Errorf("push takes a reference, as registry.example.org/types/asset:1.2, "+
					"and a VM type; got %d arguments", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			p.out, p.errs = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return p.pushTypes(cmd.Context(), args[0], slices.Concat(args, []string{"."})[1])
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) != 1 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return completeTypes(f)(cmd, nil, word)
		},
	}
	p.policy = newPolicyCheck(f, cmd)
	p.registry.addFlags(cmd)
	cmd.Flags().BoolVar(&p.dry, "dry-run", false, "list the files and write nothing")
	cmd.Flags().BoolVar(&p.skip, "skip-tests", false, "don't run tests and samples")
	cmd.Flags().StringVar(&p.layout, "layout", "", "write an OCI image layout into this `DIR`, not to the registry")
	cmd.Flags().StringVar(&p.sign, "sign", "", "sign with this private key (PEM `FILE` of openssl genpkey)")
	cli.CompleteFile(cmd, "sign")
	cmd.Flags().StringArrayVar(&p.annotations, "annotation", nil,
		"add `KEY=VALUE` to the manifest: org.opencontainers.image.source=…;\nmay be repeated")
	cli.CompleteFolder(cmd, "layout")
	cli.AtMostOne(cmd, "dry-run", "layout")
	return cmd
}

// push is the state of one call of the verb.
type push struct {
	folder      *string
	policy      *policyCheck
	registry    registryFlags
	dry, skip   bool
	layout      string
	sign        string
	annotations []string
	out, errs   io.Writer
}

func (p *push) pushTypes(ctx context.Context, reference, what string) error {
	if err := artifact.CheckReference(reference); err != nil {
		return cli.UsageError{Err: err}
	}
	to, err := p.registry.openRegistry()
	if err == nil {
		to.Signer, err = readSigner(p.sign)
	}
	if err != nil {
		return err
	}
	c, err := p.gatherContent(ctx, what)
	if err != nil {
		return err
	}
	if !p.skip {
		if err := p.testContent(ctx, c); err != nil {
			return err
		}
	}
	var pushed string
	switch {
	case p.dry:
		return p.printContent(reference, c)
	case p.layout != "":
		pushed, err = c.WriteLayout(p.layout, reference, to.Signer)
	default:
		pushed, err = to.Push(ctx, reference, c)
		err = withFlagHint(err)
	}
	if err != nil {
		return err
	}
	return cli.WriteLine(p.out, pushed)
}

// readSigner reads a file with a private key, or returns nil for "".
func readSigner(file string) (*signature.Signer, error) {
	if file == "" {
		return nil, nil
	}
	text, err := readfile.ReadFile(file, mostKey)
	if err != nil {
		return nil, cli.UsageError{Err: fmt.Errorf("--sign: %w", err)}
	}
	signer, err := signature.ReadSigner(text)
	if err != nil {
		return nil, cli.UsageError{Err: fmt.Errorf("--sign %s: %w", file, err)}
	}
	return signer, nil
}

// gatherContent returns the content to push.
func (p *push) gatherContent(ctx context.Context, what string) (*artifact.Content, error) {
	dir, name, err := typeToShare(*p.folder, what)
	if err != nil {
		return nil, err
	}
	if vmtypes.IsStock(name) {
		return nil, cli.UsageError{Err: fmt.Errorf("%s is a stock type: every vmrunner has it", name)}
	}
	source, err := vmtypes.ReadSource(dir)
	if err != nil {
		return nil, err
	}
	about, err := bounded{}.Describe(ctx, source, name)
	if err != nil {
		return nil, err
	}
	c, err := share.Gather(dir, source, about)
	if err != nil {
		return nil, err
	}
	c.Description, c.Annotations = firstSentence(name, about.Doc), map[string]string{}
	for _, pair := range p.annotations {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, cli.UsageError{Err: fmt.Errorf("--annotation %q: must be key=value", pair)}
		}
		c.Annotations[key] = value
	}
	_, err = c.Image()
	return c, err
}

// testContent runs the tests and samples in a folder that contains only the content to push.
func (p *push) testContent(ctx context.Context, c *artifact.Content) (err error) {
	dir, err := os.MkdirTemp("", "vmtype")
	if err != nil {
		return fmt.Errorf("create a folder for tests: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := share.Write(dir, c); err != nil {
		return err
	}
	folder, err := vmtypestest.Find(dir)
	if err != nil {
		return err
	}
	in, err := containedIn(dir, p.policy)
	if err != nil {
		return err
	}
	defer in.close()
	page := page{Paint: cli.PaintFor(p.errs), w: p.errs}
	var results []vmtypestest.Result
	if err := folder.Run(ctx, in, vmtypestest.Options{}, func(some []vmtypestest.Result) {
		for _, r := range some {
			page.printResult(r)
		}
		results = append(results, some...)
	}); err != nil {
		return err
	}
	summary := vmtypestest.Summarize(results)
	if summary.Failed > 0 {
		page.printTotal(summary.String()+"; nothing was written", true)
		return cli.ExitError{Code: exitFailed}
	}
	if len(results) == 0 {
		page.printLine("note: %s has neither tests nor samples", c.Name)
	} else {
		page.printTotal(summary.String(), false)
	}
	return page.err
}

// printContent prints the content to push.
func (p *push) printContent(reference string, c *artifact.Content) error {
	image, err := c.Image()
	if err != nil {
		return err
	}
	digest, err := image.Digest()
	if err != nil {
		return fmt.Errorf("digest of the artifact: %w", err)
	}
	pinned, err := artifact.Pinned(reference, digest.String())
	if err != nil {
		return err
	}
	return cli.WriteLine(p.out, pinned+"\n"+listFiles(".", c))
}

// listFiles returns the files of a type below a folder, one per line.
func listFiles(dir string, c *artifact.Content) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c.Files)) {
		fmt.Fprintf(&b, "  %s\n", filepath.Join(dir, name))
	}
	return strings.TrimSuffix(b.String(), "\n")
}
