package vmtype

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"vmop/authoring/sample"
	"vmop/internal/cli"
	"vmop/vmtypes"
	"vmop/vmtypes/evaluate"
)

func newRepl(f Flags) *cobra.Command {
	var t *trial
	cmd := &cobra.Command{
		Use:   "repl [DIR | -f vm.yaml]",
		Short: "Evaluate expressions of the language of VM types",
		Long: "Evaluate what you type: everything that a module may use, including load, with vm and\n" +
			"host of a VM (-f) or of a default VM. It prints the value of an expression; a part is shown\n" +
			"as the plan that it creates. A def ends with an empty line. Tab completes, the arrow keys go\n" +
			"through the history, Ctrl-D ends. Modules are loaded from DIR, by default the current\n" +
			"folder, or from the folder of the VM's type.\n\n" +
			"Every line is evaluated together with all lines before it, in a separate process, which\n" +
			"has 5 s of processor time and 300 MB of memory in all.\n\n" + trialHelp,
		Example: "  vmrunner vmtype repl -f vm.yaml\n" +
			"  echo 'vm.maximumRam >> 20' | vmrunner vmtype repl",
		Args: atMostOne("repl", "a folder"), ValidArgsFunction: completeFolders,
		RunE: func(cmd *cobra.Command, args []string) error {
			session, err := beginSession(cmd.Context(), t, args)
			if err != nil {
				return err
			}
			in, ok := cmd.InOrStdin().(*os.File)
			if ok && term.IsTerminal(int(in.Fd())) {
				return onTerminal(cmd.Context(), session, in, cmd.OutOrStdout())
			}
			return evaluateLines(cmd.Context(), session, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	t = newTrial(f, cmd)
	return cmd
}

// beginSession starts a session with the VM from the flags, or with a default VM.
func beginSession(ctx context.Context, t *trial, args []string) (*evaluate.Session, error) {
	if t.file != "" {
		if len(args) > 0 {
			return nil, cli.UsageError{Err: errors.New("a folder and -f are mutually exclusive")}
		}
		c, err := t.readFiles(ctx)
		if err != nil {
			return nil, err
		}
		if len(c.vmType.Source.Modules) == 0 { // a stock type
			c.vmType.Source, err = vmtypes.ReadSource(t.typeFolder(c.vmType.Name))
		}
		return evaluate.NewSession(c.vmType, c.spec, c.host), err
	}
	dir := orHere(args)[0]
	if err := requireFile("repl", "folder", dir); err != nil {
		return nil, err
	}
	source, err := vmtypes.ReadSource(dir)
	if err != nil {
		return nil, err
	}
	spec, err := sample.ParseVM([]byte("network: [{type: user}]\n"))
	return evaluate.NewSession(evaluate.Type{Source: source, Name: "standard"}, spec, sample.HostFacts{}.Host()), err
}

// The prompts: for a new statement and for its continuation.
const (
	promptFirst = ">>> "
	promptMore  = "... "
)

// evaluateLines evaluates lines from a pipe or a file. It continues after errors.
func evaluateLines(ctx context.Context, session *evaluate.Session, in io.Reader, out, errs io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, vmtypes.MaxModule)
	return runDialog(ctx, session, func(bool) (string, error) {
		if lines.Scan() {
			return lines.Text(), nil
		}
		return "", errors.Join(io.EOF, lines.Err())
	}, out, errs)
}

// onTerminal evaluates lines that the user edits on a terminal. Redirected output stays redirected.
func onTerminal(ctx context.Context, session *evaluate.Session, in *os.File, out io.Writer) (err error) {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return fmt.Errorf("read from the terminal: %w", err)
	}
	defer func() { err = errors.Join(err, term.Restore(int(in.Fd()), before)) }()
	screen := term.NewTerminal(in, promptFirst)
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		out = screen
	}
	screen.AutoCompleteCallback = func(line string, at int, key rune) (string, int, bool) {
		if key != '\t' {
			return "", 0, false
		}
		return completeLine(ctx, session, screen, line, at)
	}
	fmt.Fprintln(screen, "vm and host are defined. Tab completes, Ctrl-D ends.")
	return runDialog(ctx, session, func(more bool) (string, error) {
		if width, height, err := term.GetSize(int(in.Fd())); err == nil && width > 0 && height > 0 {
			if err := screen.SetSize(width, height); err != nil {
				return "", fmt.Errorf("write to the terminal: %w", err)
			}
		}
		if screen.SetPrompt(promptFirst); more {
			screen.SetPrompt(promptMore)
		}
		line, err := screen.ReadLine()
		if errors.Is(err, term.ErrPasteIndicator) {
			err = nil
		}
		return line, err
	}, out, screen)
}

// completeLine completes the line before the cursor as far as it is unambiguous, otherwise it lists the alternatives.
// At the beginning of a line, a tab indents.
func completeLine(
	ctx context.Context, session *evaluate.Session, screen io.Writer, line string, at int,
) (string, int, bool) {
	typed, rest := line[:at], line[at:]
	if strings.TrimSpace(typed) == "" {
		return typed + "    " + rest, at + 4, true
	}
	ways, err := session.Complete(ctx, typed)
	if err != nil || len(ways) == 0 {
		return line, at, true
	}
	longest := ways[0]
	for _, way := range ways {
		for !strings.HasPrefix(way, longest) {
			longest = longest[:len(longest)-1]
		}
	}
	if longest == typed && len(ways) > 1 {
		fmt.Fprintln(screen, strings.Join(lastWords(ways), "  "))
	}
	return longest + rest, len(longest), true
}

// lastWords returns the last word of each line.
func lastWords(lines []string) []string {
	list := slices.Clone(lines)
	for i, line := range list {
		list[i] = line[strings.LastIndexAny(line, " .(\"[,=")+1:]
	}
	return list
}

// runDialog evaluates statements until the input ends.
func runDialog(
	ctx context.Context, session *evaluate.Session, readLine func(more bool) (string, error), out, errs io.Writer,
) error {
	for ctx.Err() == nil {
		more := false
		text, err := vmtypes.ReadStatement(func() (string, error) {
			line, err := readLine(more)
			more = true
			return line, err
		})
		if errors.Is(err, io.EOF) {
			return nil
		}
		output := ""
		if err == nil {
			output, err = session.Run(ctx, text)
		}
		if err := errors.Join(writeText(out, output), printError(errs, err)); err != nil {
			return err
		}
	}
	return nil
}

func writeText(w io.Writer, text string) error {
	for line := range strings.Lines(text) {
		if _, err := fmt.Fprintln(w, cli.Printable(strings.TrimSuffix(line, "\n"))); err != nil {
			return err
		}
	}
	return nil
}

func printError(w io.Writer, err error) error {
	if err == nil {
		return nil
	}
	_, err = fmt.Fprintln(w, err)
	return err
}
