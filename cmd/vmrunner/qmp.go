package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/qmp"
)

func newQMP(f *flags) *cobra.Command {
	var form string
	cmd := &cobra.Command{
		Use:   "qmp [NAME] COMMAND [{ARGUMENTS}]",
		Short: "Send a QMP command to QEMU",
		Long: "Send one command to QEMU, and print its result. Arguments are a JSON object. The runner\n" +
			"does not check the command: it can break the VM.",
		Example: "  vmrunner qmp web query-status\n" +
			"  vmrunner qmp web human-monitor-command '{\"command-line\": \"info network\"}'",
		Args: func(_ *cobra.Command, args []string) error {
			_, _, err := qmpCommand(args)
			return err
		},
	}
	vm := aboutVM(f, cmd)
	cmd.ValidArgsFunction = vm.completeQMP
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, command, err := qmpCommand(args)
		if err != nil {
			return err
		}
		client, err := vm.dialRunner(cmd, name)
		if err != nil {
			return err
		}
		reply, err := client.QMP(cmd.Context(), command)
		if err != nil {
			return err
		}
		return cli.PrintValue(cmd.OutOrStdout(), form, reply)
	}
	cli.OutputFlag(cmd, &form, "json", "yaml")
	return cmd
}

// qmpCommand parses [NAME] COMMAND [{ARGUMENTS}].
func qmpCommand(args []string) (name []string, c qmp.Command, err error) {
	if n := len(args); n > 0 && strings.HasPrefix(strings.TrimSpace(args[n-1]), "{") {
		last := args[n-1]
		var members map[string]json.RawMessage
		dec := json.NewDecoder(bytes.NewReader([]byte(last)))
		if err := dec.Decode(&members); err != nil || dec.More() {
			return nil, c, cli.UsageError{Err: fmt.Errorf("arguments %s: not a JSON object", last)}
		}
		c.Arguments, args = json.RawMessage(last), args[:n-1]
	}
	if len(args) < 1 || len(args) > 2 {
		return nil, c, cli.UsageError{Err: errors.New("give [NAME] COMMAND [{ARGUMENTS}], with the arguments as a JSON object")}
	}
	c.Execute = args[len(args)-1]
	return args[:len(args)-1], c, nil
}
