package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"vmop/diskimage"
	"vmop/diskimage/registry"
	"vmop/diskimage/transfer"
	"vmop/internal/cli"
	"vmop/internal/outbound"
	"vmop/internal/readfile"
)

// defaultSocket is the socket that waits for an upload.
const defaultSocket = "/run/vmimport/upload.sock"

func newImportCommand(reach outbound.Rule) *cobra.Command {
	var log cli.LogFlags
	root := &cobra.Command{
		Use:   "vmimport",
		Short: "Fill a disk with an image, or serve it to a VM",
		Long: "Fill a file or a block device with the raw bytes of a disk, or serve a disk to a VM. The\n" +
			"last line of output of import and clone is a JSON object with the reason Imported or the\n" +
			"reason of a failure.",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cli.SetUp(root, version)
	log.Add(root)
	root.AddCommand(newImport(&log, reach), newClone(&log), newReceive(), newExport(&log), newFetch(), newServe(&log))
	return root
}

// common contains the flags of verbs that write a disk.
type common struct {
	log         *cli.LogFlags
	target      diskimage.Target
	limits      diskimage.Limits
	scratch     string
	listen      string
	termination string
}

func (c *common) addFlags(p *pflag.FlagSet) {
	p.Int64Var(&c.target.Size, "size", 0, "size of the disk in `BYTES` (default the size of the image)")
	p.StringVar(&c.scratch, "scratch", "",
		"`DIR` for a copy of data that must be converted (default the folder of the target\nfile, or the folder for "+
			"temporary files)")
	p.Int64Var(&c.limits.Transfer, "max-transfer", 0,
		"largest transfer in `BYTES` (default 1.1 times what the disk may need)")
	p.DurationVar(&c.limits.Time, "max-time", 6*time.Hour, "`DURATION` that the import may take")
	p.DurationVar(&c.limits.Stall, "stall", time.Minute, "`DURATION` to wait for data before giving up")
	p.StringVar(&c.listen, "listen", "", "`ADDRESS` of GET /progress, such as :8080 (default none)")
	p.StringVar(&c.termination, "termination-log", "", "`FILE` for the outcome, the same as on standard output")
}

// loggerOf returns a logger to standard error, configured by the flags.
func loggerOf(flags *cli.LogFlags) (*slog.Logger, error) {
	level, err := flags.ParseLevel()
	if err != nil {
		return nil, err
	}
	handler, err := flags.Handler(level, os.Stderr)
	if err != nil {
		return nil, err
	}
	return slog.New(handler), nil
}

// startImport returns an import to the target, and the reporter of its progress and outcome.
func (c *common) startImport(ctx context.Context) (diskimage.Import, *reporter, error) {
	logger, err := loggerOf(c.log)
	if err != nil {
		return diskimage.Import{}, nil, err
	}
	// Kubernetes may start a program again that was killed after it had finished.
	c.target.Replace = true
	r := &reporter{log: logger, termination: c.termination}
	i := diskimage.Import{
		Target: c.target, Limits: c.limits, Scratch: c.scratch, Progress: r.reportProgress, Log: r.log,
	}
	return i, r, r.serveProgress(ctx, c.listen)
}

// importFlags contains the flags of import.
type importFlags struct {
	common
	url, image, checksum             string
	upload, insecure                 bool
	caFile, authFolder, dockerConfig string
	door                             door
	reach                            outbound.Rule
}

func newImport(log *cli.LogFlags, reach outbound.Rule) *cobra.Command {
	f := importFlags{common: common{log: log}, reach: reach}
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Import an image from a URL, a container image or an upload",
		Long: "Fill a disk with an image in raw, iso, qcow2, vmdk, vhdx, vdi or vpc format,\n" +
			"uncompressed or compressed with gzip, xz or zstd. Credentials are read from files.",
		Args: cli.NoArguments, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.runImport(cmd) },
	}
	p := cmd.Flags()
	p.StringVar(&f.url, "url", "", "http or https `URL` of the image")
	p.StringVar(&f.image, "image", "", "container image or artifact that contains the image: `REGISTRY/NAME:TAG`")
	p.BoolVar(&f.upload, "upload", false, "wait for an upload from vmimport receive, or from the manager with --tls")
	p.StringVar(&f.target.Path, "target", "", "`FILE` or block device to fill; required")
	cli.ChecksumFlag(p, &f.checksum, "the transferred data")
	p.StringVar(&f.caFile, "ca-file", "", "`FILE` with additional trusted authorities (PEM)")
	p.StringVar(&f.authFolder, "auth-folder", "", "`DIR` with the files username and password, for --url")
	p.StringVar(&f.dockerConfig, "docker-config", "", ".dockerconfigjson `FILE` with the credentials for --image")
	p.BoolVar(&f.insecure, "insecure", false, "permit http for --image")
	p.BoolVar(&f.reach.NoPrivate, "no-private-addresses", false,
		"refuse sources at private addresses, in addition to internal addresses")
	f.door.addFlags(p)
	f.addFlags(p)
	return cmd
}

func (f *importFlags) runImport(cmd *cobra.Command) error {
	sources := 0
	for _, given := range []bool{f.url != "", f.image != "", f.upload} {
		if given {
			sources++
		}
	}
	if sources != 1 || f.target.Path == "" {
		return cli.UsageError{Err: errors.New("give --target, and one of --url, --image and --upload")}
	}
	i, r, err := f.startImport(cmd.Context())
	if err != nil {
		return err
	}
	i.Reach = f.reach
	i.Checksum, err = diskimage.ParseChecksum(f.checksum)
	if err == nil && !f.upload {
		i.Source, err = f.imageSource()
	}
	var result diskimage.Result
	switch {
	case err != nil:
	case f.upload:
		result, err = f.receiveImage(cmd.Context(), i, r)
	default:
		result, err = i.Run(cmd.Context())
	}
	return r.reportEnd(cmd.OutOrStdout(), result, err)
}

// receiveImage imports an uploaded image.
func (f *importFlags) receiveImage(ctx context.Context, i diskimage.Import, r *reporter) (diskimage.Result, error) {
	listeners, err := f.door.listenUntil(ctx, r.log)
	if err != nil {
		return diskimage.Result{}, fmt.Errorf("wait for an upload: %w", err)
	}
	return receiveUpload(ctx, listeners, i, r)
}

// Maximum sizes of files with settings, in bytes.
const (
	mostSecret = 64 << 10
	mostBundle = 1 << 20
)

func (f *importFlags) imageSource() (diskimage.Source, error) {
	bundle, err := readSetting(f.caFile, mostBundle)
	if err != nil {
		return nil, err
	}
	if f.image != "" {
		config, err := readSetting(f.dockerConfig, mostSecret)
		return registry.Image{
			Reference: f.image, DockerConfig: config, CABundle: bundle, Insecure: f.insecure,
		}, err
	}
	h := diskimage.HTTP{URL: f.url, CABundle: bundle}
	for name, value := range map[string]*string{"username": &h.Username, "password": &h.Password} {
		if f.authFolder == "" {
			break
		}
		text, err := readSetting(filepath.Join(f.authFolder, name), mostSecret)
		if err != nil {
			return nil, err
		}
		*value = strings.TrimRight(string(text), "\r\n")
	}
	return h, nil
}

// readSetting returns the content of a file, or nil if name is "".
func readSetting(name string, most int64) ([]byte, error) {
	if name == "" {
		return nil, nil
	}
	text, err := readfile.ReadFile(name, most)
	if err != nil {
		return nil, diskimage.Refuse(diskimage.InvalidSource, "%w", err)
	}
	return text, nil
}

func newClone(log *cli.LogFlags) *cobra.Command {
	c := common{log: log}
	var length int64
	cmd := &cobra.Command{
		Use:   "clone FROM TO",
		Short: "Copy a disk",
		Long: "Copy a disk, a file or a block device, to another disk. Holes stay holes. Headers are\n" +
			"ignored, because a guest may have written them.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return cli.UsageError{Err: fmt.Errorf("takes FROM and TO; got %d arguments", len(args))}
			}
			c.target.Path = args[1]
			i, r, err := c.startImport(cmd.Context())
			if err != nil {
				return err
			}
			i.Source, i.Format = diskimage.File{Path: args[0], Length: length}, diskimage.Raw
			result, err := i.Run(cmd.Context())
			return r.reportEnd(cmd.OutOrStdout(), result, err)
		},
	}
	c.addFlags(cmd.Flags())
	cmd.Flags().Int64Var(&length, "length", 0, "`BYTES` of FROM to copy (default all)")
	return cmd
}

func newReceive() *cobra.Command {
	var socket string
	var a transfer.Announcement
	cmd := &cobra.Command{
		Use:   "receive",
		Short: "Send an image to a waiting vmimport import",
		Long: "Send the image on standard input to vmimport import --upload, and return when it is\n" +
			"imported. A broken connection looks like the end of the image, so --size or --checksum is\n" +
			"required. With --id one piece is sent; without --length only the state of the upload is\n" +
			"printed.",
		Args: cli.NoArguments, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case a.Size <= 0 && a.Checksum == "":
				return cli.UsageError{Err: errors.New("give --size or --checksum")}
			case a.ID != "" && a.Size <= 0, a.ID == "" && (a.From != 0 || a.Length != 0):
				return cli.UsageError{Err: errors.New("a piece needs --id and --size")}
			}
			return sendUpload(cmd.Context(), cmp.Or(socket, defaultSocket), a, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	p := cmd.Flags()
	p.Int64Var(&a.Size, "size", 0, "size of the image in `BYTES`; required without --checksum")
	cli.ChecksumFlag(p, &a.Checksum, "the image")
	p.StringVar(&a.ID, "id", "", "`ID` of an upload in pieces; needs --size")
	p.Int64Var(&a.From, "from", 0, "offset of the piece in `BYTES`")
	p.Int64Var(&a.Length, "length", 0, "size of the piece in `BYTES`; 0 only prints the state of the upload")
	p.StringVar(&socket, "socket", defaultSocket, "`PATH` of the Unix socket")
	return cmd
}
