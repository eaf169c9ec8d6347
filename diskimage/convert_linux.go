package diskimage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"vmop/internal/childprocess"
	"vmop/internal/confine"
)

// Limits of one qemu-img process, in addition to processor time and file size.
const (
	// convertMemory is the limit of its address space in bytes: the program with its libraries, the stacks of its
	// threads, and the tables of an image.
	convertMemory = 2 << 30
	// convertFiles is the maximum number of open files.
	convertFiles = 64
)

// conversion is one run of qemu-img, from a probed image to the output.
type conversion struct {
	program string
	image   string
	format  Format
	out     *output
	size    int64 // of the disk, in bytes
	cpu     time.Duration
	percent func(float64)
}

// runQEMUImg converts the image. Rules restrict qemu-img to reading the image, writing the output, and running
// programs.
//
// See docs/decisions/0104-hostile-images.md.
func (c *conversion) runQEMUImg(ctx context.Context) error {
	source, err := c.sourceOption()
	if err != nil {
		return err
	}
	if c.format == QCOW2 { // QEMU reads zeros beyond the end of a truncated image
		p, err := c.qemuImg(ctx, []string{"check", source})
		if err != nil {
			return err
		}
		if exit := p.Exit(); exit.Code != 0 && exit.Code != onlyLeaks {
			return c.exitError(p)
		}
	}
	args := []string{"convert", "-p", "-n", "-W", "-t", "writeback"}
	if c.out.zeroed {
		args = append(args, "--target-is-zero")
	}
	p, err := c.qemuImg(ctx, append(args, "--target-image-opts", source, c.targetOption()))
	if err != nil {
		return err
	}
	return c.exitError(p)
}

// onlyLeaks is the exit status of qemu-img check for an image that is larger than necessary.
const onlyLeaks = 3

// qemuImg runs qemu-img to its end. Its output about an image may have any length, so it isn't logged.
func (c *conversion) qemuImg(ctx context.Context, args []string) (*childprocess.Process, error) {
	program, err := exec.LookPath(c.program)
	if err != nil {
		return nil, Refuse(Internal, "find qemu-img (Debian: package qemu-utils): %w", err)
	}
	said, says, err := os.Pipe()
	if err != nil {
		return nil, Refuse(Internal, "%w", err)
	}
	p, err := childprocess.Start(childprocess.Spec{
		Name: "qemu-img", Path: program, Args: args, Dir: "/", Stdout: says,
		// An additional thread must not cost 64 MiB of address space.
		Env:    []string{"LC_ALL=C", "PATH=/usr/bin:/bin", "MALLOC_ARENA_MAX=2"},
		Rules:  c.confinement(program),
		Limits: c.resourceLimits(),
	}, slog.New(slog.DiscardHandler))
	if err := errors.Join(err, says.Close()); err != nil {
		return nil, Refuse(Internal, "%w", errors.Join(err, said.Close()))
	}
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		c.followProgress(said)
	}()
	select {
	case <-p.Done():
	case <-ctx.Done():
		err = p.Terminate(context.WithoutCancel(ctx), 0)
	}
	_ = said.Close() // also ends the reader
	<-followed
	if ctx.Err() != nil {
		return nil, errors.Join(ctx.Err(), err)
	}
	return p, nil
}

// sourceOption returns the image as qemu-img opens it. It names formats and protocols explicitly, so qemu-img never
// derives them from contents or file names.
func (c *conversion) sourceOption() (string, error) {
	source := map[string]any{
		"driver": string(c.format), "read-only": true, "backing": nil,
		"file": map[string]any{"driver": "file", "filename": absolutePath(c.image), "locking": "off"},
	}
	if c.format == VPC {
		source["force_size_calc"] = "current_size" // not the size of the disk's geometry
	}
	text, err := json.Marshal(source)
	if err != nil {
		return "", Refuse(Internal, "%w", err)
	}
	return "json:" + string(text), nil
}

// targetOption returns the output as qemu-img opens it.
func (c *conversion) targetOption() string {
	driver := "file"
	if c.out.device {
		driver = "host_device"
	}
	name := strings.ReplaceAll(absolutePath(c.out.part), ",", ",,")
	return "driver=raw,file.driver=" + driver + ",file.filename=" + name
}

func (c *conversion) confinement(program string) *confine.Rules {
	return &confine.Rules{Paths: append(confine.Programs(),
		confine.Path{Name: absolutePath(program), Access: confine.Read},
		confine.Path{Name: absolutePath(c.image), Access: confine.Read},
		confine.Path{Name: absolutePath(c.out.part), Access: confine.Write})}
}

func absolutePath(name string) string {
	if abs, err := filepath.Abs(name); err == nil {
		return abs
	}
	return name
}

func (c *conversion) resourceLimits() []childprocess.Limit {
	return []childprocess.Limit{
		{Resource: unix.RLIMIT_AS, Most: convertMemory},
		{Resource: unix.RLIMIT_CPU, Most: uint64(c.cpu/time.Second) + 1},
		{Resource: unix.RLIMIT_FSIZE, Most: uint64(roundUp(c.size))},
		{Resource: unix.RLIMIT_NOFILE, Most: convertFiles},
	}
}

// followProgress reads the progress, for example "    (12.34/100%)\r".
func (c *conversion) followProgress(r io.Reader) {
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		if at := bytes.LastIndex(buf[:n], []byte("/100%)")); at >= 0 {
			text := buf[:at]
			text = text[bytes.LastIndexByte(text, '(')+1:]
			if percent, err := strconv.ParseFloat(string(text), 64); err == nil {
				c.percent(percent)
			}
		}
		if err != nil {
			return
		}
	}
}

// exitError turns the exit status and the messages of qemu-img into an error, or returns nil after a success.
func (c *conversion) exitError(p *childprocess.Process) error {
	exit, said := p.Exit(), strings.TrimSpace(p.Tail())
	if exit == (childprocess.Exit{}) {
		return nil
	}
	if i := strings.LastIndexByte(said, '\n'); i >= 0 {
		said = said[i+1:]
	}
	said = strings.TrimPrefix(said, "qemu-img: ")
	for name, is := range map[string]string{c.image: "the image", c.out.part: c.out.Path} {
		said = strings.ReplaceAll(said, absolutePath(name), is)
	}
	switch {
	case strings.Contains(said, unix.ENOSPC.Error()), strings.Contains(said, "No space left on device"),
		strings.Contains(said, "Disk quota exceeded"):
		return Refuse(NoSpace, "write %s: its volume is full", c.out.Path)
	case exit.Signal == syscall.SIGXCPU:
		return Refuse(LimitExceeded, "the conversion of the image took more than %s of processor time", c.cpu)
	case exit.Signal == syscall.SIGXFSZ, strings.Contains(said, "output file is smaller"):
		return Refuse(ImageCorrupt, "the image has more data than its header states")
	case exit.Signal == syscall.SIGKILL:
		return Refuse(LimitExceeded, "the conversion of the image was killed; memory may have been short")
	case exit.Signal != 0, strings.Contains(said, "Cannot allocate memory"),
		strings.Contains(said, "Could not allocate"):
		return Refuse(LimitExceeded, "the conversion of the image took more than %s of memory (qemu-img: %s: %s)",
			Size(convertMemory), exit, said)
	case strings.Contains(said, "error while writing"):
		return Refuse(TargetFailed, "write %s: %s", c.out.Path, said)
	}
	return Refuse(ImageCorrupt, "the image can't be converted: %s", said)
}
