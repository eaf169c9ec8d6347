package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"vmop/cli"
	"vmop/qmp"
)

func newQMP(f *flags) *cobra.Command {
	var form string
	cmd := &cobra.Command{
		Use:   "qmp [NAME] COMMAND [{ARGUMENTS}]",
		Short: "Send a QMP command to QEMU",
		Long: "qmp sends one command to QEMU and prints what it returns. Arguments are a JSON\n" +
			"object. The runner does not look at the command: one that changes the machine is\n" +
			"your own responsibility.",
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
		client, err := vm.dial(cmd, name)
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

// qmpCommand takes [NAME] COMMAND [{ARGUMENTS}] apart.
func qmpCommand(args []string) (name []string, c qmp.Command, err error) {
	if n := len(args); n > 0 && strings.HasPrefix(strings.TrimSpace(args[n-1]), "{") {
		last := args[n-1]
		var members map[string]json.RawMessage
		dec := json.NewDecoder(bytes.NewReader([]byte(last)))
		if err := dec.Decode(&members); err != nil || dec.More() {
			return nil, c, cli.UsageError{Err: fmt.Errorf("arguments %s: no JSON object", last)}
		}
		c.Arguments, args = json.RawMessage(last), args[:n-1]
	}
	if len(args) < 1 || len(args) > 2 {
		return nil, c, cli.UsageError{Err: errors.New("want [NAME] COMMAND [{ARGUMENTS}], arguments as a JSON object")}
	}
	c.Execute = args[len(args)-1]
	return args[:len(args)-1], c, nil
}
