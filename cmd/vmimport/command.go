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
			"last line of output is a JSON object with the reason Imported or the reason of a\n" +
			"failure.",
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
	p.Int64Var(&c.target.Size, "size", 0, "size of the disk in `bytes`; default: size of the image")
	p.StringVar(&c.scratch, "scratch", "", "`folder` for a copy of data that must be converted; default: folder\nof the target")
	p.Int64Var(&c.limits.Transfer, "max-transfer", 0, "`bytes` to transfer at most; default what the disk may need")
	p.DurationVar(&c.limits.Time, "max-time", 6*time.Hour, "how long it may take")
	p.DurationVar(&c.limits.Stall, "stall", time.Minute, "how long to wait for data before giving up")
	p.StringVar(&c.listen, "listen", "", "`address` of GET /progress, as :8080; default none")
	p.StringVar(&c.termination, "termination-log", "", "`file` for the outcome, as in the standard output")
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
	p.StringVar(&f.url, "url", "", "`URL` of the image, http or https")
	p.StringVar(&f.image, "image", "", "container image, or artifact, with the image in it: `REGISTRY/NAME:TAG`")
	p.BoolVar(&f.upload, "upload", false, "wait for vmimport receive")
	p.StringVar(&f.target.Path, "target", "", "`file` or block device to fill")
	p.StringVar(&f.checksum, "checksum", "", "checksum of the bytes transferred: `sha256:HEX`, sha512, md5")
	p.StringVar(&f.caFile, "ca-file", "", "`file` with additional trusted authorities (PEM)")
	p.StringVar(&f.authFolder, "auth-folder", "", "`folder` with the files username and password, for the URL")
	p.StringVar(&f.dockerConfig, "docker-config", "", "`file` .dockerconfigjson, for the container image")
	p.BoolVar(&f.insecure, "insecure", false, "permit http for the container image")
	p.BoolVar(&f.reach.NoPrivate, "no-private-addresses", false, "also refuse sources at private addresses")
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
	cmd.Flags().Int64Var(&length, "length", 0, "`bytes` of FROM that are copied; default all")
	return cmd
}

func newReceive() *cobra.Command {
	var socket string
	var a transfer.Announcement
	cmd := &cobra.Command{
		Use:   "receive",
		Short: "Send an image to a vmimport that waits for it",
		Long: "Send the image on standard input to vmimport import --upload, and return when it is\n" +
			"imported. A broken connection looks like the end of the image, so set its size or\n" +
			"checksum. With --id a piece is sent; without --length only the progress of the upload is\n" +
			"printed.",
		Args: cli.NoArguments, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case a.Size <= 0 && a.Checksum == "":
				return cli.UsageError{Err: errors.New("give --size or --checksum")}
			case a.ID != "" && a.Size <= 0, a.ID == "" && (a.From != 0 || a.Length != 0):
				return cli.UsageError{Err: errors.New("a piece wants --id and --size")}
			}
			return sendUpload(cmd.Context(), cmp.Or(socket, defaultSocket), a, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	p := cmd.Flags()
	p.Int64Var(&a.Size, "size", 0, "`bytes` of the image")
	p.StringVar(&a.Checksum, "checksum", "", "checksum of the image: `sha256:HEX`, sha512, md5")
	p.StringVar(&a.ID, "id", "", "`text` that identifies an upload in pieces")
	p.Int64Var(&a.From, "from", 0, "first `byte` of the piece")
	p.Int64Var(&a.Length, "length", 0, "`bytes` of the piece")
	p.StringVar(&socket, "socket", defaultSocket, "`path` of the socket")
	return cmd
}
