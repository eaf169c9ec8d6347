package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/test/invariants"
	"vmop/test/wait"
)

// medium is a block device that records each write and flush in order, so that the test can later simulate a power cut
// at any time. Data that is only in the file system's cache has not been written, and data that was written since the
// last flush may be lost in the cache of a real disk.
type medium struct {
	t             *testing.T
	export, log   string
	mount         string
	stopBystander func()
}

// mediumSize is sufficient for a data directory, an image and a runtime directory.
const mediumSize = 64 << 20

// newMedium creates a medium and mounts a file system on it.
func newMedium(t *testing.T, mount string) *medium {
	t.Helper()
	dir := t.TempDir()
	m := &medium{t: t, export: filepath.Join(dir, "export"), log: filepath.Join(dir, "log"), mount: mount}
	disk := filepath.Join(dir, "disk")
	for _, file := range []string{m.export, m.log, disk} {
		require.NoError(t, os.WriteFile(file, nil, 0o600))
	}
	require.NoError(t, os.Truncate(disk, mediumSize))
	t.Cleanup(func() { _ = syscall.Unmount(m.export, syscall.MNT_DETACH) }) // the daemon may have been killed
	daemon := exec.CommandContext(context.WithoutCancel(t.Context()), "qemu-storage-daemon",
		"--blockdev", "driver=file,node-name=disk,filename="+disk,
		"--blockdev", "driver=file,node-name=log,filename="+m.log,
		"--blockdev", "driver=blklogwrites,node-name=logged,file=disk,log=log",
		"--export", "type=fuse,id=export,node-name=logged,writable=on,mountpoint="+m.export)
	var said bytes.Buffer
	daemon.Stdout, daemon.Stderr = &said, &said
	require.NoError(t, daemon.Start())
	t.Cleanup(func() {
		_ = daemon.Process.Signal(syscall.SIGTERM) // it unmounts its export
		_ = daemon.Wait()                          // ignore its result
	})
	wait.Until(t, func() bool {
		info, err := os.Stat(m.export)
		return err == nil && info.Size() == mediumSize
	}, "this test needs root and /dev/fuse: %s", &said)
	e2fs(t, "mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", m.export)
	mountImage(t, m.export, mount)
	m.fsync()
	return m
}

// mountImage mounts a file system in a file until the test ends or it is unmounted.
func mountImage(t *testing.T, image, at string) {
	t.Helper()
	e2fs(t, "mount", "-o", "loop", image, at)
	t.Cleanup(func() { _ = syscall.Unmount(at, syscall.MNT_DETACH) })
}

// fsync continuously syncs an unrelated file on the medium, so that the names and sizes of all files are written as
// soon as possible, but not their content.
func (m *medium) fsync() {
	file, err := os.Create(filepath.Join(m.mount, "bystander"))
	require.NoError(m.t, err)
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		defer file.Close()
		for n := 0; ; n++ {
			_, _ = fmt.Fprintln(file, n)
			_ = file.Sync()
			select {
			case <-stop:
				return
			case <-time.After(tick):
			}
		}
	})
	m.stopBystander = sync.OnceFunc(func() { close(stop); group.Wait() })
	m.t.Cleanup(m.stopBystander)
}

// now returns the size of the log. All data that was synced before is in it.
func (m *medium) now() int64 {
	m.t.Helper()
	info, err := os.Stat(m.log)
	require.NoError(m.t, err)
	return info.Size()
}

// cut is the content of the medium when the power fails; at is a position in the log.
type cut struct {
	at    int64
	image []byte
}

// Flags of the log's entries, in the format of Linux's dm-log-writes.
const (
	logFlush, logFUA, logDiscard = 1, 2, 4

	sector = 512
)

// cuts calls each with the content of the medium at sorted positions in the log. It drops a random part of the writes
// that no flush followed.
func (m *medium) cuts(moments []int64, random *rand.Rand, each func(cut)) {
	m.t.Helper()
	log, err := os.ReadFile(m.log)
	require.NoError(m.t, err)
	require.EqualValues(m.t, 0x6a736677736872, binary.LittleEndian.Uint64(log), "the log's magic number")
	type write struct {
		at   int64
		data []byte
	}
	flushed := make([]byte, mediumSize)
	var pending []write
	place := int64(sector)
	for _, moment := range moments {
		for place+sector <= moment {
			head := log[place:]
			at := int64(binary.LittleEndian.Uint64(head)) * sector
			length := int64(binary.LittleEndian.Uint64(head[8:])) * sector
			flags := binary.LittleEndian.Uint64(head[16:])
			end := place + sector
			if flags&logDiscard == 0 {
				end += length
			}
			if end > moment {
				break
			}
			data := log[place+sector : end]
			if flags&logDiscard != 0 {
				data = make([]byte, length)
			}
			if flags&(logFlush|logFUA) != 0 {
				for _, w := range pending {
					copy(flushed[w.at:], w.data)
				}
				pending = nil
			}
			if flags&logFUA != 0 {
				copy(flushed[at:], data)
			} else {
				pending = append(pending, write{at, data})
			}
			place = end
		}
		image := slices.Clone(flushed)
		for _, w := range pending {
			if random.IntN(2) == 0 {
				copy(image[w.at:], w.data)
			}
		}
		each(cut{moment, image})
	}
}

// A VM starts from everything that a power cut can leave of its data directory (and of its runtime directory, which
// need not be in memory). The power fails at any time during its first start, the growth of its disk, its end, and an
// update of its type. The VM is the same machine, with its firmware variables and with everything that the runner had
// reported.
//
// VMOP_CUTS is the number of power cuts. SEED repeats a run.
func TestFault36ThePowerFails(t *testing.T) {
	t.Parallel()
	dir := folder(t, "mine", "accelerator: tcg", "firmware: uefi-4m", "useTpm: true", "network: []",
		"powerdownTimeout: 0", "drives: [{file: PATH/disk/disk.img, size: 8 MiB}]")
	rewrite(t, dir, "dataDir: data", "dataDir: disk/data", "runtimeDir: run", "runtimeDir: disk/run")
	v := &poweredVM{t: t, dir: dir}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "disk"), 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "types"), 0o700))
	v.setType("The first.")
	m := newMedium(t, filepath.Join(dir, "disk"))
	v.medium = m
	v.live()
	m.stopBystander()
	unmount(t, m.mount)
	t.Logf("%d KiB written", m.now()>>10)

	count, random := chance(t, "VMOP_CUTS", 20)
	var moments []int64
	for n := range count { // the same number in each phase
		of := n % (len(v.phases) - 1)
		from, to := v.phases[of].began, v.phases[of+1].began
		// A phase that is shorter than an fsync writes nothing.
		moments = append(moments, from+random.Int64N(to-from+1))
	}
	slices.Sort(moments)
	m.cuts(moments, random, v.check)
}

// poweredVM is a VM with its data on a medium.
type poweredVM struct {
	t      *testing.T
	dir    string
	medium *medium
	phases []phase
	known  []promise
}

// phase is a phase of a VM's life, with a configuration and a text of its type.
type phase struct {
	what         string
	began        int64
	config, mine string
}

// promise is the content that a file must have after a power cut, from a position in the log on.
type promise struct {
	from       int64
	file, text string
}

// setType writes the VM's type with a text.
func (v *poweredVM) setType(says string) {
	v.t.Helper()
	text := "\"\"\"" + says + "\"\"\"\nload(\"@vmtypes//standard.star\", standard = \"launch\", standard_options = \"options\")\n" +
		"options = standard_options\ndef launch(vm, host):\n    return standard(vm, host)\n"
	require.NoError(v.t, os.WriteFile(filepath.Join(v.dir, "types", "mine.star"), []byte(text), 0o600))
}

func (v *poweredVM) enter(what string) {
	v.t.Helper()
	config, err := os.ReadFile(filepath.Join(v.dir, "config.yaml"))
	require.NoError(v.t, err)
	mine, err := os.ReadFile(filepath.Join(v.dir, "types", "mine.star"))
	require.NoError(v.t, err)
	v.phases = append(v.phases, phase{what, v.medium.now(), string(config), string(mine)})
}

// promise records that a file's current content must not be lost from now on.
func (v *poweredVM) promise(file string) {
	v.t.Helper()
	text, err := os.ReadFile(filepath.Join(v.medium.mount, "data", file))
	require.NoError(v.t, err)
	v.known = append(v.known, promise{v.medium.now(), file, string(text)})
}

func (v *poweredVM) start() *program {
	v.t.Helper()
	p := newProgram(v.t, v.dir, nil)
	p.cmd.Args[slices.Index(p.cmd.Args, "--vmtypes")+1] = filepath.Join(v.dir, "types")
	p.launch()
	return p
}

// live runs the VM's phases while its medium is recorded.
func (v *poweredVM) live() {
	v.t.Helper()
	pinned := func(says string) {
		wait.Until(v.t, func() bool {
			text, _ := os.ReadFile(filepath.Join(v.medium.mount, "data/vmtype.txtar")) // it may not exist yet
			_, err := os.Stat(filepath.Join(v.medium.mount, "data/machines.txt"))
			return err == nil && strings.Contains(string(text), `"""`+says)
		})
	}
	v.enter("the first start")
	p := v.start()
	p.await(`booting`)
	v.promise("uuid.txt")
	v.promise("fw-vars.fd.kind")
	pinned("The first.")

	v.enter("the disk grows")
	rewrite(v.t, v.dir, "size: 8 MiB", "size: 16 MiB")
	p.await(`image grown`)

	v.enter("the stop")
	p.ends()
	v.promise("vmtype.txtar")
	v.promise("machines.txt")

	v.setType("The second.")
	rewrite(v.t, v.dir, "  vmType: mine\n", "  vmType: mine\n  updateVmType: true\n")
	v.enter("the update of the type")
	p = v.start()
	p.await(`booting`)
	pinned("The second.")

	v.enter("the second stop")
	p.ends()
	v.promise("vmtype.txtar")
	v.enter("the end")
}

// check starts the VM from the data after a power cut.
func (v *poweredVM) check(c cut) {
	t := v.t
	t.Helper()
	now := v.phases[0]
	for _, p := range v.phases {
		if p.began <= c.at {
			now = p
		}
	}
	about := fmt.Sprintf("%s, at %d of %d", now.what, c.at, v.medium.now())
	require.NoError(t, os.WriteFile(filepath.Join(v.dir, "config.yaml"), []byte(now.config), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(v.dir, "types", "mine.star"), []byte(now.mine), 0o600))
	image := filepath.Join(v.dir, "cut.img")
	writeSparse(t, image, c.image)
	mountImage(t, image, v.medium.mount)
	before := v.files(about)
	for file, allowed := range v.promised(c.at) {
		require.True(t, slices.Contains(allowed, before[file]), "%s: %s has %d bytes", about, file, len(before[file]))
	}
	for file, text := range before {
		require.NotEmpty(t, text, "%s: %s is empty", about, file)
	}

	p := v.start()
	p.await(`booting`)
	require.NotContains(t, p.out.String(), "set aside", about)
	after := v.files(about)
	for _, file := range []string{"uuid.txt", "fw-vars.fd.kind"} {
		if text, there := before[file]; there {
			require.Equal(t, text, after[file], "%s: %s", about, file)
		}
	}
	killAll(t, v.dir, p)
	unmount(t, v.medium.mount)
	require.NoError(t, os.Remove(image))
}

// promised returns the allowed contents of files at a position in the log: the last promised content, and content that
// is being written.
func (v *poweredVM) promised(at int64) map[string][]string {
	texts := map[string][]string{}
	for _, p := range v.known {
		if p.from <= at {
			texts[p.file] = nil
		} else if _, known := texts[p.file]; !known {
			continue
		}
		texts[p.file] = append(texts[p.file], p.text)
	}
	return texts
}

// files returns the contents of the runner's files in the data directory.
func (v *poweredVM) files(about string) map[string]string {
	v.t.Helper()
	found := map[string]string{}
	for _, name := range []string{"uuid.txt", "fw-vars.fd", "fw-vars.fd.kind", "vmtype.txtar", "machines.txt"} {
		text, err := os.ReadFile(filepath.Join(v.medium.mount, "data", name))
		if err == nil {
			found[name] = string(text)
		} else {
			require.ErrorIs(v.t, err, fs.ErrNotExist, about)
		}
	}
	return found
}

// unmount unmounts a file system, and waits until the kernel has ended its users.
func unmount(t *testing.T, at string) {
	t.Helper()
	invariants.NoProcess(t, at)
	wait.Until(t, func() bool { return syscall.Unmount(at, 0) == nil })
}

// writeSparse writes a file with holes instead of zeros.
func writeSparse(t *testing.T, path string, data []byte) {
	t.Helper()
	file, err := os.Create(path)
	require.NoError(t, err)
	defer file.Close()
	require.NoError(t, file.Truncate(int64(len(data))))
	const block = 4096
	zeros := make([]byte, block)
	for at := 0; at < len(data); at += block {
		if part := data[at : at+block]; !bytes.Equal(part, zeros) {
			_, err := file.WriteAt(part, int64(at))
			require.NoError(t, err)
		}
	}
}
