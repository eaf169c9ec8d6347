package diskimage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"vmop/internal/atomicfile"
)

// Export copies a disk to a file that must not exist yet. The caller names the format of from: a guest may have
// written the disk's header, so Export never reads the format from there. The formats are qemu-img's. As after an
// import, the file is complete or doesn't exist.
func Export(ctx context.Context, from string, format Format, to string, as Format) (err error) {
	if _, err := os.Lstat(to); err == nil {
		return Refuse(TargetExists, "%s already exists", to)
	}
	part := to + partSuffix
	defer func() {
		if e := os.Remove(part); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}()
	convert := exec.CommandContext(ctx, "qemu-img", "convert", "-f", string(format), "-O", string(as), "--", from, part)
	if out, err := convert.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("export %s: %w: %s", from, err, strings.TrimSpace(string(out)))
	}
	if err := atomicfile.Sync(part); err != nil {
		return ofTarget("write", part, err)
	}
	return ofTarget("write", to, atomicfile.Rename(part, to))
}

// CreateQCOW2 creates an empty qcow2 image of a size in bytes at a path that must not exist yet.
func CreateQCOW2(ctx context.Context, path string, size int64) error {
	if _, err := os.Lstat(path); err == nil {
		return Refuse(TargetExists, "%s already exists", path)
	}
	bytes := strconv.FormatInt(size, 10)
	create := exec.CommandContext(ctx, "qemu-img", "create", "-q", "-f", string(QCOW2), "--", path, bytes)
	if out, err := create.CombinedOutput(); err != nil {
		return fmt.Errorf("create the image %s: %w: %s", path, err, strings.TrimSpace(string(out)))
	}
	return nil
}
