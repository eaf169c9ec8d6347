package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"vmop/internal/yamlfile"
	"vmop/vmtypes/policy"
)

func TestPrintable(t *testing.T) {
	t.Parallel()
	require.Equal(t, "one fault; another; �[31m�", Printable("one fault\nanother\n\x1b[31m\x07\n"))
}

// run executes a prepared command and returns its output.
func run(prepare func(*cobra.Command), args ...string) (string, error) {
	var out bytes.Buffer
	cmd := &cobra.Command{Use: "x", RunE: func(cmd *cobra.Command, _ []string) error {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "ran")
		return err
	}}
	SetUp(cmd, "1.2")
	prepare(cmd)
	cmd.SetOut(&out)
	cmd.SetArgs(args)
	err := cmd.Execute()
	return out.String(), err
}

func TestArguments(t *testing.T) {
	t.Parallel()
	verbs := func(cmd *cobra.Command) {
		leaf := &cobra.Command{Use: "leaf", Args: NoArguments, RunE: cmd.RunE}
		stop := &cobra.Command{Use: "stop", SuggestFor: []string{"end", "finish"}, RunE: cmd.RunE}
		kill := &cobra.Command{Use: "kill", SuggestFor: []string{"end"}, RunE: cmd.RunE}
		cmd.Args = NoArguments
		cmd.AddCommand(leaf, stop, kill)
	}
	for args, want := range map[string]string{
		"": "", "leaf": "",
		"leaf one two": `x leaf takes only flags, not the argument "one"`,
		"stpo":         `there is no verb "stpo" (did you mean stop?)`,
		"end":          `there is no verb "end" (did you mean kill or stop?)`,
		"finish it":    `there is no verb "finish" (did you mean stop?)`,
		"dance":        `there is no verb "dance" ("x help" lists them)`,
	} {
		out, err := run(verbs, strings.Fields(args)...)
		if want == "" {
			require.NoError(t, err, args)
			require.Equal(t, "ran\n", out)
			continue
		}
		require.EqualError(t, err, want)
		require.ErrorAs(t, err, new(UsageError))
	}
	for _, args := range []string{"version", "--version"} {
		out, err := run(verbs, args)
		require.NoError(t, err)
		require.Equal(t, "x 1.2\n", out)
	}
}

// Flag checks run in order, and the command runs after the last check.
func TestChecksOfFlags(t *testing.T) {
	t.Parallel()
	checked := errors.New("the first check")
	flags := func(first func(*cobra.Command, []string) error) func(*cobra.Command) {
		return func(cmd *cobra.Command) {
			cmd.PreRunE = first
			cmd.Flags().Bool("a", false, "")
			cmd.Flags().Bool("b", false, "")
			AtMostOne(cmd, "a", "b")
			OutputFlag(cmd, new(string), "text", "json")
		}
	}
	for args, want := range map[string]string{
		"": "", "--a": "", "--b -o json": "", "--a --b": "give one of --a, --b, not several",
		"-o xml": "-o xml: must be one of text, json",
	} {
		out, err := run(flags(nil), strings.Fields(args)...)
		if want == "" {
			require.NoError(t, err, args)
			require.Equal(t, "ran\n", out)
			_, err = run(flags(func(*cobra.Command, []string) error { return checked }), strings.Fields(args)...)
			require.ErrorIs(t, err, checked)
			continue
		}
		require.EqualError(t, err, want)
		require.ErrorAs(t, err, new(UsageError))
		require.Empty(t, out)
	}
}

func TestPrintedValues(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, PrintValue(&out, "json", []int{1}))
	require.NoError(t, PrintValue(&out, "yaml", map[string]string{"a": "b"}))
	require.ErrorContains(t, PrintValue(&out, "json", func() {}), "encode the answer: ")
	require.NoError(t, WriteLine(&out, "one\n\n"))
	require.NoError(t, Table(&out, [][]string{{"NAME", "X"}, {"a\nb", "longer"}}))
	require.Equal(t, "[\n  1\n]\na: b\none\n\nNAME   X\na; b   longer\n", out.String())
	require.ErrorIs(t, WriteLine(closed{}, ""), io.ErrClosedPipe)
	require.ErrorIs(t, Table(closed{}, [][]string{{"a"}}), io.ErrClosedPipe)
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// Output to a terminal is colored unless the environment forbids it.
func TestPaint(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	defer terminal.Close()
	file, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer file.Close()
	t.Setenv("NO_COLOR", "")
	require.Equal(t, "a", PaintFor(file).Red("a"))
	require.Equal(t, "a", PaintFor(&bytes.Buffer{}).Underlined("a"))
	p := PaintFor(terminal)
	require.Equal(t, "\x1b[1ma\x1b[0m\x1b[2mb\x1b[0m\x1b[4mc\x1b[24m\x1b[31md\x1b[0m\x1b[32me\x1b[0m\x1b[33mf\x1b[0m",
		p.Bold("a")+p.Faint("b")+p.Underlined("c")+p.Red("d")+p.Green("e")+p.Yellow("f")+p.Cyan(""))
	t.Setenv("NO_COLOR", "1")
	require.Equal(t, "a", PaintFor(terminal).Green("a"))
}

// A terminal shows the newest text of each step at a limited rate. Other outputs show the first text.
func TestProgressOfSteps(t *testing.T) {
	t.Parallel()
	for terminal, want := range map[bool]string{
		true:  "\r\x1b[Kone\r\x1b[Kthree\r\x1b[Kfour\r\x1b[K\r\x1b[Kfive",
		false: "one\nfour\nfive\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			cmd := &cobra.Command{}
			cmd.SetErr(&out)
			p := NewProgress(cmd)
			p.terminal = terminal
			require.Equal(t, terminal, p.OnTerminal())
			for _, step := range []string{
				"a one", "a two", "wait", "a three", "wait", "a three", "b four", "end", "end", "b five",
			} {
				name, text, _ := strings.Cut(step, " ")
				switch name {
				case "wait":
					time.Sleep(progressTime)
				case "end":
					p.End()
					p.written = time.Time{}
				default:
					p.Show(name, text)
				}
			}
			require.Equal(t, want, out.String())
		})
	}
}

func TestDescribedErrors(t *testing.T) {
	t.Parallel()
	one := yamlfile.Faults{{File: "f", Line: 1, Column: 1, Message: "no", Source: "a: b"}}
	require.Equal(t, "1 error in the configuration\nf:1:1: no\n   1 | a: b\n     | ^", Describe(one))
	policyOf := &policy.FileError{Err: append(one, one...)}
	require.True(t, strings.HasPrefix(Describe(policyOf), "2 errors in the policy for VM types\n"), Describe(policyOf))
	require.Equal(t, "x", Describe(errors.New("x")))
}

func TestLogFlags(t *testing.T) {
	t.Parallel()
	f := LogFlags{Level: "warn", Form: "text"}
	level, err := f.ParseLevel()
	require.NoError(t, err)
	var out bytes.Buffer
	for _, form := range []string{"text", "json", "auto"} {
		f.Form = form
		h, err := f.Handler(level, &out)
		require.NoError(t, err)
		slog.New(h).Info("little")
		slog.New(h).Warn(form)
	}
	require.Regexp(t, `^[0-9:]{8} WRN text\n\{"time":"[^"]*","level":"WARN","msg":"json"\}\n.*auto.*\n$`, out.String())
	require.Contains(t, []string{"text", "json"}, f.Form)
	f = LogFlags{Level: "loud", Form: "xml"}
	_, err = f.ParseLevel()
	require.EqualError(t, err, `--log-level "loud": must be debug, info, warn or error`)
	_, err = f.Handler(level, &out)
	require.EqualError(t, err, `--log-format "xml": must be text, json or auto`)
}

func TestSignals(t *testing.T) {
	t.Parallel()
	ctx, stop := UntilSignal(t.Context())
	defer stop()
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
	<-ctx.Done()
	var s SignalError
	require.ErrorAs(t, context.Cause(ctx), &s)
	require.Equal(t, 143, s.ExitCode())
	require.EqualError(t, s, "signal terminated")
	require.EqualError(t, ExitError{7}, "exit code 7")
}
