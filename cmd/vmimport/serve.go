package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"vmop/cli"
	"vmop/nbdexport"
	"vmop/printable"
	"vmop/runner/disks"
	"vmop/vmspec"
)

func newServe(log *cli.LogFlags) *cobra.Command {
	var e nbdexport.Export
	var termination string
	var size int64
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a disk to a VM, by NBD with mutual TLS",
		Long: "serve runs qemu-storage-daemon for a disk, a file or a block device with raw\n" +
			"bytes, until it gets a signal. It admits clients of the authority in the folder\n" +
			"of --tls. While another one serves the disk for writing, this one waits.",
		Args: cli.NoArguments, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if e.Disk == "" || e.TLS == "" || e.Port == 0 {
				return cli.UsageError{Err: errors.New("want --disk, --tls and a --port from 1")}
			}
			logger, err := loggerOf(log)
			if err != nil {
				return err
			}
			if err = makeDisk(e.Disk, size, logger); err == nil {
				err = e.Run(cmd.Context(), logger)
			}
			if err != nil && termination != "" {
				text := printable.Clip(printable.Line(err.Error()), mostMessage)
				if writeErr := os.WriteFile(termination, []byte(text), 0o600); writeErr != nil {
					err = errors.Join(err, fmt.Errorf("write the termination message: %w", writeErr))
				}
			}
			return err
		},
	}
	p := cmd.Flags()
	p.StringVar(&e.Disk, "disk", "", "`file` or block device to serve")
	p.StringVar(&e.Name, "name", "disk", "`name` of the export")
	p.StringVar(&e.TLS, "tls", "", "`folder` with ca-cert.pem, of the clients, server-cert.pem and\nserver-key.pem")
	p.StringVar(&e.Address, "address", "0.0.0.0", "IP `address` to listen at")
	p.Uint16Var(&e.Port, "port", nbdexport.Port, "`port` to listen at")
	p.Int64Var(&size, "size", 0, "`bytes` of a file that is made if there is none, or of as many as\nits file system has room for")
	p.BoolVar(&e.ReadOnly, "read-only", false, "refuse writes")
	p.StringVar(&termination, "termination-log", "", "`file` for the reason of a failure")
	return cmd
}

// makeDisk makes the file of a disk that no VM has had yet, as the runner makes it.
func makeDisk(name string, size int64, logger *slog.Logger) error {
	if _, err := os.Lstat(name); size <= 0 || !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, fault := range disks.MakeImages([]vmspec.Drive{{File: name, Size: vmspec.Bytes(size)}}, logger) {
		return fmt.Errorf("make the disk %s: %s", name, fault.Message)
	}
	return nil
}
