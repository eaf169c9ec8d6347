package guest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// kernelVariable is the environment variable that selects another kernel: the path of a file vmlinuz-RELEASE, with
// modules in /lib/modules/RELEASE.
const kernelVariable = "VMOP_GUEST_KERNEL"

// kernel is a bootable kernel and the folder of its modules.
type kernel struct {
	Path    string
	Modules string
}

// findKernel returns the chosen kernel. If chosen is empty, it returns the newest cloud kernel in the folders boot and
// copies, or the newest kernel of any kind if they contain no cloud kernel. Cloud kernels boot in half the time,
// because they are small and compressed with LZ4.
//
// On Ubuntu only root can read /boot. The installation script puts a readable copy into the folder copies.
func findKernel(chosen, boot, copies, modules string) (kernel, error) {
	if chosen != "" {
		return kernelAt(chosen, modules)
	}
	var found []string
	for _, dir := range []string{boot, copies} {
		names, err := filepath.Glob(filepath.Join(dir, "vmlinuz-*"))
		if err != nil {
			return kernel{}, err
		}
		found = append(found, names...)
	}
	slices.SortStableFunc(found, func(a, b string) int { return compareReleases(kernelRelease(b), kernelRelease(a)) })
	faults := errors.New("install the package linux-image-cloud-amd64 (on Ubuntu: linux-image-virtual)")
	for _, path := range found {
		k, err := kernelAt(path, modules)
		if err == nil {
			return k, nil
		}
		faults = errors.Join(faults, err)
	}
	return kernel{}, fmt.Errorf("find a kernel for the guest in %s: %w", boot, faults)
}

func kernelAt(path, modules string) (kernel, error) {
	k := kernel{Path: path, Modules: filepath.Join(modules, kernelRelease(path))}
	for _, name := range []string{path, filepath.Join(k.Modules, "modules.dep")} {
		file, err := os.Open(name)
		if err != nil {
			return kernel{}, err
		}
		file.Close()
	}
	return k, nil
}

func kernelRelease(path string) string {
	return strings.TrimPrefix(filepath.Base(path), "vmlinuz-")
}

// compareReleases compares kernel releases: cloud kernels are higher than all others. Otherwise the numbers decide
// (6.1.0-9 is lower than 6.1.0-10).
func compareReleases(a, b string) int {
	if x, y := strings.Contains(a, "cloud"), strings.Contains(b, "cloud"); x != y {
		if x {
			return 1
		}
		return -1
	}
	return slices.Compare(releaseNumbers(a), releaseNumbers(b))
}

func releaseNumbers(release string) []int {
	var all []int
	for _, word := range strings.FieldsFunc(release, func(r rune) bool { return r < '0' || r > '9' }) {
		n := 0
		for _, digit := range word {
			n = n*10 + int(digit-'0')
		}
		all = append(all, n)
	}
	return all
}

// needed and useful list the drivers that the guest loads as modules, unless the kernel contains them. The available
// useful drivers depend on the kernel: Debian's cloud kernel lacks AHCI, USB, graphics and 9p.
var (
	needed = strings.Fields("virtio_pci virtio_console virtio_blk virtio_net vfat button evdev")
	useful = strings.Fields("nls_cp437 nls_ascii nls_iso8859_1 nls_utf8 af_packet" +
		" virtio_mmio virtio_rng virtio_balloon virtio_mem virtio_scsi sd_mod sr_mod ahci ata_piix" +
		" isofs udf ext4 efivarfs tpm_crb tpm_tis pvpanic_mmio pvpanic_pci virtiofs")
)

// module is an unpacked kernel module, with its file name in the guest.
type module struct {
	Name    string
	Content []byte
}

// modulesWithDependencies returns the needed and the useful modules and their dependencies, each after its
// dependencies. The kernel's modules.dep (depmod(8)) has a line for every module: its file, a colon, and the files to
// load before it, in reverse order.
func (k kernel) modulesWithDependencies(needed, useful []string) ([]module, error) {
	builtin, err := k.moduleTable("modules.builtin")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	loadable, err := k.moduleTable("modules.dep")
	if err != nil {
		return nil, err
	}
	var order []string
	for _, name := range slices.Concat(needed, useful) {
		files := slices.Clone(loadable[name])
		if files == nil && builtin[name] == nil && slices.Contains(needed, name) {
			return nil, fmt.Errorf("kernel %s has no %s", k.Path, name)
		}
		slices.Reverse(files)
		order = append(order, files...)
	}
	var all []module
	taken := map[string]bool{}
	for _, file := range order {
		if taken[file] {
			continue
		}
		taken[file] = true
		content, err := readModule(filepath.Join(k.Modules, file))
		if err != nil {
			return nil, err
		}
		all = append(all, module{Name: moduleName(file) + ".ko", Content: content})
	}
	return all, nil
}

// moduleTable reads modules.dep or modules.builtin. It returns the files of each line by the name of the line's first
// file, the module itself.
func (k kernel) moduleTable(file string) (map[string][]string, error) {
	text, err := os.ReadFile(filepath.Join(k.Modules, file))
	if err != nil {
		return nil, fmt.Errorf("read the kernel's list of modules: %w", err)
	}
	table := map[string][]string{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		files := strings.Fields(strings.Replace(lines.Text(), ":", " ", 1))
		if len(files) > 0 {
			table[moduleName(files[0])] = files
		}
	}
	return table, lines.Err()
}

// moduleName converts kernel/drivers/x/virtio-rng.ko.xz to virtio_rng: file names contain both - and _, but the kernel
// uses only _.
func moduleName(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// readModule reads and unpacks a module, because busybox' insmod may be unable to. Debian uses xz since version 13,
// Ubuntu zstd since 24.04.
func readModule(path string) ([]byte, error) {
	packed, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read a kernel module: %w", err)
	}
	var unpacked io.Reader
	switch filepath.Ext(path) {
	case ".ko":
		return packed, nil
	case ".xz":
		unpacked, err = xz.NewReader(bytes.NewReader(packed))
	case ".zst":
		unpacked, err = zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderConcurrency(1))
	default:
		err = errors.New("its compression is unknown here")
	}
	if err != nil {
		return nil, fmt.Errorf("unpack the kernel module %s: %w", path, err)
	}
	content, err := io.ReadAll(unpacked)
	if err != nil {
		return nil, fmt.Errorf("unpack the kernel module %s: %w", path, err)
	}
	return content, nil
}
