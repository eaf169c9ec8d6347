package guest

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/elf"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// CommandLine is the kernel command line of each guest for a PC. Tests append their words. The kernel uses the serial
// console without its own messages, and reboots when it panics.
//
// Without no_timer_check, the kernel counts timer interrupts when it starts, and panics if QEMU does not run during
// that tenth of a second: see docs/decisions/0166-the-guests-timer.md.
const CommandLine = "console=ttyS0 quiet panic=-1 no_timer_check"

// Image contains the two files that QEMU boots directly, with -kernel and -initrd. The kernel uses the serial console
// if its command line is CommandLine.
type Image struct {
	// Kernel is the path of a bzImage, or of an Image on arm64.
	Kernel string
	// Initrd is the path of the initramfs, a cpio archive compressed with gzip.
	Initrd string
}

// Tiny returns the tiny guest, and builds it if it is missing from the user's cache directory. It ends the test if the
// machine lacks an ingredient. The files belong to the cache: a test must not change them.
func Tiny(t testing.TB) Image {
	t.Helper()
	image, err := cachedImage(t.Context(), installedIngredients)
	if err != nil {
		t.Fatalf("build the tiny guest: %v", err)
	}
	return image
}

// Arm64 is Tiny for an arm64 machine, built with the kernel and the busybox that tools/scripts/arm64-guest downloads.
func Arm64(t testing.TB) Image {
	t.Helper()
	image, err := cachedImage(t.Context(), fetchedIngredients)
	if err != nil {
		t.Fatalf("build the tiny guest for arm64: %v", err)
	}
	return image
}

// PC is Tiny with a kernel that has drivers for real hardware and needs no virtual devices. tools/scripts/pc-guest
// downloads the kernel.
func PC(t testing.TB) Image {
	t.Helper()
	image, err := cachedImage(t.Context(), fetchedForPC)
	if err != nil {
		t.Fatalf("build the tiny guest for a PC: %v", err)
	}
	return image
}

// Build writes the tiny guest into the folder dir as vmlinuz and initrd.gz, and creates the folder when needed. Each
// file is replaced in one step: a virtual machine that has the old file open keeps it.
func Build(ctx context.Context, dir string) (Image, error) {
	image, err := cachedImage(ctx, installedIngredients)
	if err != nil {
		return Image{}, err
	}
	copied := imageIn(dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Image{}, fmt.Errorf("make the guest's folder: %w", err)
	}
	for from, to := range map[string]string{image.Kernel: copied.Kernel, image.Initrd: copied.Initrd} {
		if err := replaceFolder(from, to); err != nil {
			return Image{}, err
		}
	}
	return copied, nil
}

func imageIn(dir string) Image {
	return Image{Kernel: filepath.Join(dir, "vmlinuz"), Initrd: filepath.Join(dir, "initrd.gz")}
}

func replaceFolder(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("read the guest from the cache: %w", err)
	}
	fresh := to + ".new"
	if err := os.WriteFile(fresh, content, 0o644); err != nil {
		return fmt.Errorf("write the guest: %w", err)
	}
	return os.Rename(fresh, to)
}

// ingredients are the parts of a guest: a kernel, and the path of a static busybox.
type ingredients struct {
	kernel  kernel
	busybox string
	drivers []string // additional needed drivers
}

// installedIngredients returns the ingredients of this machine. cache is our cache folder.
func installedIngredients(cache string) (ingredients, error) {
	kernel, err := findKernel(os.Getenv(kernelVariable), "/boot", filepath.Join(cache, "kernel"), "/lib/modules")
	if err != nil {
		return ingredients{}, err
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return ingredients{}, fmt.Errorf("find busybox: %w; %s", err, busyboxAdvice)
	}
	return ingredients{kernel: kernel, busybox: busybox}, nil
}

// fetchedIngredients returns the ingredients for arm64.
func fetchedIngredients(cache string) (ingredients, error) {
	root := filepath.Join(cache, "arm64")
	if !fileExists(root) {
		return ingredients{}, fmt.Errorf("there is no %s: run tools/scripts/arm64-guest", root)
	}
	kernel, err := findKernel("", filepath.Join(root, "boot"), "", filepath.Join(root, "lib/modules"))
	return ingredients{kernel: kernel, busybox: filepath.Join(root, "bin/busybox")}, err
}

// fetchedForPC returns the ingredients for a PC: this machine's busybox, and drivers for the hardware of old PCs.
func fetchedForPC(cache string) (ingredients, error) {
	made, err := installedIngredients(cache)
	if err != nil {
		return ingredients{}, err
	}
	root := filepath.Join(cache, "pc")
	if !fileExists(root) {
		return ingredients{}, fmt.Errorf("there is no %s: run tools/scripts/pc-guest", root)
	}
	made.kernel, err = findKernel("", filepath.Join(root, "boot"), "", filepath.Join(root, "lib/modules"))
	made.drivers = strings.Fields(
		"ata_piix sd_mod sr_mod e1000 8139cp psmouse uhci_hcd ehci_pci xhci_pci usb_storage usbhid hid_generic i6300esb")
	return made, err
}

// cachedImage returns the guest from the user's cache directory, or builds it there.
func cachedImage(ctx context.Context, find func(cache string) (ingredients, error)) (Image, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return Image{}, fmt.Errorf("find the cache directory: %w", err)
	}
	cache = filepath.Join(cache, "vmop")
	made, err := find(cache)
	if err != nil {
		return Image{}, err
	}
	bzImage, err := os.ReadFile(made.kernel.Path)
	if err != nil {
		return Image{}, fmt.Errorf("read the guest's kernel: %w", err)
	}
	archive, err := buildInitramfs(made)
	if err != nil {
		return Image{}, err
	}
	hash := sha256.New()
	hash.Write(bzImage)
	hash.Write(archive)
	dir := filepath.Join(cache, "guest", hex.EncodeToString(hash.Sum(nil))[:16])
	if _, err := os.Stat(dir); err == nil {
		return imageIn(dir), nil
	}
	if err := ctx.Err(); err != nil {
		return Image{}, err
	}
	return storeImage(dir, bzImage, archive)
}

// storeImage writes the two files into a temporary folder and renames it to dir at the end. Readers never see a partial
// folder, and of two concurrent builders only the first stores its result.
func storeImage(dir string, bzImage, archive []byte) (Image, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return Image{}, fmt.Errorf("make the guest's cache: %w", err)
	}
	fresh, err := os.MkdirTemp(filepath.Dir(dir), "new")
	if err != nil {
		return Image{}, fmt.Errorf("make the guest's cache: %w", err)
	}
	defer os.RemoveAll(fresh)
	image := imageIn(fresh)
	err = errors.Join(
		os.Chmod(fresh, 0o755),
		os.WriteFile(image.Kernel, bzImage, 0o644),
		os.WriteFile(image.Initrd, packFast(archive), 0o644),
	)
	if err != nil {
		return Image{}, fmt.Errorf("write the guest's cache: %w", err)
	}
	if err := os.Rename(fresh, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return Image{}, fmt.Errorf("store the guest: %w", err)
	}
	return imageIn(dir), nil
}

// packFast compresses fast: a guest unpacks the result in 0.1 s, and half a megabyte more does not matter.
func packFast(archive []byte) []byte {
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	err = cmp.Or(err, func() error { _, err := w.Write(archive); return err }(), w.Close())
	if err != nil {
		panic(err) // a buffer accepts all writes, and the level is valid
	}
	return packed.Bytes()
}

//go:embed tiny/*.sh
var scripts embed.FS

// buildInitramfs returns the guest's root file system as an uncompressed cpio archive: folders, busybox, the scripts,
// the modules, and their load order.
func buildInitramfs(from ingredients) ([]byte, error) {
	busybox, err := staticBusybox(from.busybox)
	if err != nil {
		return nil, err
	}
	modules, err := from.kernel.modulesWithDependencies(slices.Concat(needed, from.drivers), useful)
	if err != nil {
		return nil, err
	}
	var root archive
	for _, dir := range []string{"bin", "dev", "etc", "lib", "lib/modules", "mnt", "proc", "run", "sys", "tmp"} {
		root.addDir(dir)
	}
	root.addFile("bin/busybox", 0o755, busybox)
	for script, place := range map[string]string{
		"init.sh": "init", "hotplug.sh": "bin/hotplug", "lease.sh": "bin/lease",
		"report.sh": "lib/report.sh", "answer.sh": "lib/answer.sh",
	} {
		text, err := scripts.ReadFile("tiny/" + script)
		if err != nil {
			return nil, err
		}
		root.addFile(place, 0o755, text)
	}
	var order bytes.Buffer
	for _, m := range modules {
		root.addFile("lib/modules/"+m.Name, 0o644, m.Content)
		fmt.Fprintf(&order, "/lib/modules/%s\n", m.Name)
	}
	root.addFile("etc/modules.list", 0o644, order.Bytes())
	return root.archiveBytes(), nil
}

const busyboxAdvice = "install the package busybox-static"

// staticBusybox reads busybox and requires that it runs without libraries.
func staticBusybox(path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read busybox: %w", err)
	}
	program, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("read %s as a program: %w", path, err)
	}
	for _, part := range program.Progs {
		if part.Type == elf.PT_INTERP {
			return nil, fmt.Errorf("%s needs shared libraries; %s", path, busyboxAdvice)
		}
	}
	return content, nil
}
