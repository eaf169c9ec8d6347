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

	"vmop/confine"
	"vmop/process"
)

// The limits of one qemu-img, beside that of the size of files.
const (
	// convertMemory is its address space, in bytes: the program with its libraries, the
	// stacks of its threads, and the tables of an image.
	convertMemory = 2 << 30
	// convertFiles is how many files it may have open.
	convertFiles = 64
)

// conversion is one run of qemu-img, from an image that was probed to the output.
type conversion struct {
	program string
	image   string
	format  Format
	out     *output
	size    int64 // of the disk, in bytes
	cpu     time.Duration
	percent func(float64)
	log     *slog.Logger
}

// run converts. What qemu-img may use is the image, for reading, the output, and programs.
//
// See docs/decisions/0104-hostile-images.md.
func (c *conversion) run(ctx context.Context) error {
	program, err := exec.LookPath(c.program)
	if err != nil {
		return Refuse(Internal, "find qemu-img (Debian: package qemu-utils): %w", err)
	}
	said, says, err := os.Pipe()
	if err != nil {
		return Refuse(Internal, "%w", err)
	}
	defer said.Close()
	args, err := c.args()
	if err != nil {
		return errors.Join(err, says.Close())
	}
	p, err := process.Start(process.Spec{
		Name: "qemu-img", Path: program, Args: args, Dir: "/", Stdout: says,
		// A thread more than others must not cost 64 MiB of address space.
		Env:    []string{"LC_ALL=C", "PATH=/usr/bin:/bin", "MALLOC_ARENA_MAX=2"},
		Rules:  c.rules(program),
		Limits: c.limits(),
	}, c.log)
	if closing := says.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return Refuse(Internal, "%w", err)
	}
	go c.follow(said)
	select {
	case <-p.Done():
		return c.verdict(p)
	case <-ctx.Done():
		if err := p.Terminate(context.WithoutCancel(ctx), 0); err != nil {
			return Refuse(Internal, "%w", err)
		}
		return ctx.Err()
	}
}

// args are the arguments of qemu-img. Formats and protocols are named: nothing is found out
// from contents or file names.
func (c *conversion) args() ([]string, error) {
	image, err := filepath.Abs(c.image)
	if err != nil {
		return nil, Refuse(Internal, "%w", err)
	}
	part, err := filepath.Abs(c.out.part)
	if err != nil {
		return nil, Refuse(Internal, "%w", err)
	}
	source := map[string]any{
		"driver": string(c.format), "read-only": true, "backing": nil,
		"file": map[string]any{"driver": "file", "filename": image, "locking": "off"},
	}
	if c.format == VPC {
		source["force_size_calc"] = "current_size" // and not that of the disk's geometry
	}
	text, err := json.Marshal(source)
	if err != nil {
		return nil, Refuse(Internal, "%w", err)
	}
	driver := "file"
	if c.out.device {
		driver = "host_device"
	}
	target := "driver=raw,file.driver=" + driver + ",file.filename=" + strings.ReplaceAll(part, ",", ",,")
	args := []string{"convert", "-p", "-n", "-W", "-t", "writeback"}
	if c.out.zeroed {
		args = append(args, "--target-is-zero")
	}
	return append(args, "--target-image-opts", "json:"+string(text), target), nil
}

func (c *conversion) rules(program string) *confine.Rules {
	r := &confine.Rules{}
	for _, name := range []string{
		"/usr", "/bin", "/lib", "/lib64", "/nix/store", "/gnu/store", "/etc/ld.so.cache", "/proc/meminfo",
		"/proc/sys/vm/overcommit_memory", "/sys/devices/system", "/dev/urandom", program, c.image,
	} {
		r.Paths = append(r.Paths, confine.Path{Name: absolute(name), Access: confine.Read})
	}
	for _, name := range []string{"/dev/null", c.out.part} {
		r.Paths = append(r.Paths, confine.Path{Name: absolute(name), Access: confine.Write})
	}
	return r
}

func absolute(name string) string {
	if abs, err := filepath.Abs(name); err == nil {
		return abs
	}
	return name
}

func (c *conversion) limits() []process.Limit {
	return []process.Limit{
		{Resource: unix.RLIMIT_AS, Most: convertMemory},
		{Resource: unix.RLIMIT_CPU, Most: uint64(c.cpu/time.Second) + 1},
		{Resource: unix.RLIMIT_FSIZE, Most: uint64(roundUp(c.size))},
		{Resource: unix.RLIMIT_NOFILE, Most: convertFiles},
	}
}

// follow reads the progress: "    (12.34/100%)\r".
func (c *conversion) follow(r io.Reader) {
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

// verdict says how it ended.
func (c *conversion) verdict(p *process.Process) error {
	exit, said := p.Exit(), strings.TrimSpace(p.Tail())
	if exit == (process.Exit{}) {
		return nil
	}
	if i := strings.LastIndexByte(said, '\n'); i >= 0 {
		said = said[i+1:]
	}
	said = strings.TrimPrefix(said, "qemu-img: ")
	for name, is := range map[string]string{c.image: "the image", c.out.part: c.out.Path} {
		said = strings.ReplaceAll(said, absolute(name), is)
	}
	switch {
	case strings.Contains(said, unix.ENOSPC.Error()), strings.Contains(said, "No space left on device"),
		strings.Contains(said, "Disk quota exceeded"):
		return Refuse(NoSpace, "write %s: its volume is full", c.out.Path)
	case exit.Signal == syscall.SIGXCPU:
		return Refuse(LimitExceeded, "the conversion of the image took more than %s of processor time", c.cpu)
	case exit.Signal == syscall.SIGXFSZ, strings.Contains(said, "output file is smaller"):
		return Refuse(ImageCorrupt, "the image has more data than its header says")
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
