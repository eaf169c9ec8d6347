package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"vmop/diskimage/nbd"
	"vmop/internal/cli"
	"vmop/internal/printable"
	"vmop/runner/disks"
	"vmop/vmspec"
)

func newServe(log *cli.LogFlags) *cobra.Command {
	var e nbd.Export
	var termination string
	var size int64
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a disk to a VM over NBD with mutual TLS",
		Long: "Serve a disk, a file or a block device with raw bytes, with qemu-storage-daemon until a\n" +
			"signal arrives. Clients need a certificate of the authority in the folder of --tls. If\n" +
			"another process serves the disk for writing, serve waits.",
		Args: cli.NoArguments, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if e.Disk == "" || e.TLS == "" || e.Port == 0 {
				return cli.UsageError{Err: errors.New("give --disk, --tls and a --port of at least 1")}
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
	p.StringVar(&e.Disk, "disk", "", "`FILE` or block device to serve; required")
	p.StringVar(&e.Name, "name", "disk", "`NAME` of the export")
	p.StringVar(&e.TLS, "tls", "",
		"`DIR` with ca-cert.pem of the clients, server-cert.pem and server-key.pem; required")
	p.StringVar(&e.Address, "address", "0.0.0.0", "IP `ADDRESS` to listen on")
	p.Uint16Var(&e.Port, "port", nbd.Port, "`PORT` to listen on")
	p.Int64Var(&size, "size", 0, "size in `BYTES` to create a missing file with (default no file is created)")
	p.BoolVar(&e.ReadOnly, "read-only", false, "refuse writes")
	p.StringVar(&termination, "termination-log", "", "`FILE` for the reason of a failure")
	return cmd
}

// makeDisk creates the file of a new disk, in the same way as the runner.
func makeDisk(name string, size int64, logger *slog.Logger) error {
	if _, err := os.Lstat(name); size <= 0 || !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, fault := range disks.MakeImages([]vmspec.Drive{{File: name, Size: vmspec.Bytes(size)}}, logger) {
		return fmt.Errorf("create the disk %s: %s", name, fault.Message)
	}
	return nil
}
