package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/launch"
	"vmop/runner/migrate"
	"vmop/runner/migrate/handover"
	"vmop/runner/migrate/link"
	"vmop/runner/status"
	"vmop/test/invariants"
	"vmop/test/tier"
	"vmop/test/wait"
)

// tpmUser is a guest with data in its TPM: a register that a reset clears, and a permanent value.
type tpmUser struct {
	*serial

	register [sha256.Size]byte
	value    uint64
}

// Parts of TPM 2.0 commands in hexadecimal: the owner with an empty password, an index of eight bytes, and the register
// for tests.
const (
	ownersPassword = "00000009" + "40000009" + "0000" + "00" + "0000"
	tpmOwner       = "40000001"
	tpmIndex       = "01500001"
	testRegister   = "00000010"
)

// tpmUserOf waits for the guest of a folder, and initializes the data in its TPM.
func tpmUserOf(t *testing.T, dir string) *tpmUser {
	t.Helper()
	u := &tpmUser{serial: console(t, dir)}
	u.await(`TINY \S+ READY`)
	const attributes = "02060006" // read and write for the owner and with the password
	u.says("8002", "0000012a"+tpmOwner+ownersPassword+"0000"+"000e"+tpmIndex+"000b"+attributes+"0000"+"0008", "")
	u.writes()
	return u
}

// says sends a TPM command from the guest, which must succeed with an answer that matches a pattern. It does not use
// the kernel's TPM files, which are missing if the kernel gave up at its start on a busy computer.
func (u *tpmUser) says(tag, command, answer string) {
	u.out.t.Helper()
	text, err := hex.DecodeString(tag + fmt.Sprintf("%08x", 6+len(command)/2) + command)
	require.NoError(u.out.t, err)
	octal := ""
	for _, b := range text {
		octal += fmt.Sprintf(`\%03o`, b)
	}
	u.typeLine("sh printf '" + octal + "' >/tmp/c; exec 4<>/dev/tpm0; cat /tmp/c >&4; echo said $(bytes 4096 <&4)")
	u.await("said " + tag + "[0-9a-f]{8}00000000" + answer)
}

// writes changes the data in the TPM.
func (u *tpmUser) writes() {
	u.out.t.Helper()
	u.value++
	u.says("8002", "00000137"+tpmOwner+tpmIndex+ownersPassword+"0008"+fmt.Sprintf("%016x", u.value)+"0000", "")
	digest := sha256.Sum256(binary.BigEndian.AppendUint64(nil, u.value))
	u.says("8002", "00000182"+testRegister+ownersPassword+"00000001"+"000b"+hex.EncodeToString(digest[:]), "")
	u.register = sha256.Sum256(append(u.register[:], digest[:]...))
}

// finds requires that the TPM contains the data that the guest has written.
func (u *tpmUser) finds() {
	u.out.t.Helper()
	u.says("8002", "0000014e"+tpmOwner+tpmIndex+ownersPassword+"0008"+"0000", fmt.Sprintf("0000000a0008%016x", u.value))
	const selection = "00000001" + "000b" + "03" + "000001"
	u.says("8001", "0000017e"+selection, "[0-9a-f]{8}"+selection+"00000001"+"0020"+hex.EncodeToString(u.register[:]))
}

// works requires that the TPM contains the guest's data, and accepts changes.
func (u *tpmUser) works() {
	u.out.t.Helper()
	u.finds()
	u.writes()
	u.finds()
}

// movedTo continues at the console in another folder, where the guest now runs.
func (u *tpmUser) movedTo(dir string) {
	u.out.t.Helper()
	u.serial = console(u.out.t, dir)
	u.works()
	require.Equal(u.out.t, status.TPMWorks, known(u.out.t, dir).TPM)
	require.Equal(u.out.t, []string{"tpm"}, tpmFolders(u.out.t, dir))
}

// tpmFolders returns the TPM folders in a data directory.
func tpmFolders(t *testing.T, dir string) (names []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "data", "tpm*"))
	require.NoError(t, err)
	for _, path := range found {
		if info, err := os.Lstat(path); err == nil && info.IsDir() {
			names = append(names, filepath.Base(path))
		}
	}
	return names
}

// A guest is migrated with its TPM and all its data, to the target and back.
func TestATPMIsMigrated(t *testing.T) {
	t.Parallel()
	j := begin(t, append(tiny(t, ""), "useTpm: true")...)
	u := tpmUserOf(t, j.fromDir)
	j.moves()
	u.movedTo(j.toDir)

	// The guest returns to the folder with an older TPM state.
	back := j.back()
	back.expects()
	back.moves()
	u.movedTo(j.fromDir)
	again := start(t, j.toDir, nil)
	require.Equal(t, 1, again.exit())
	require.Contains(t, again.out.String(), "the guest was moved to the runner at 127.0.0.1:")

	// After a restart, the TPM contains only its permanent data.
	back.receiving.stops(j.fromDir)
	start(t, j.fromDir, nil).await(`booting`)
	u.serial, u.register = console(t, j.fromDir), [sha256.Size]byte{}
	u.await(`TINY \S+ READY`)
	u.works()
}

// If a migration fails, before or after QEMU has saved the TPM, the TPM stays with its guest, and works.
func TestATPMStaysWithItsGuest(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	j := begin(t, append(tiny(t, ""), "useTpm: true")...)
	u := tpmUserOf(t, j.fromDir)
	stays := func(why string, args ...string) {
		t.Helper()
		out, err := j.migrate(args...)
		require.Error(t, err)
		require.Contains(t, out, why)
		require.Equal(t, 1, j.receiving.exit())
		require.True(t, runs(t, j.fromDir))
		u.works()
		require.Empty(t, tpmFolders(t, j.toDir), "the target keeps the state of a TPM that isn't its own")
	}

	// The target's TPM process ends before the state has arrived.
	go func() {
		j.receiving.await(`event=Listens`)
		for _, pid := range invariants.Processes(t, j.toDir)["swtpm"] {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}()
	stays("", "--bandwidth", "10 MiB")

	// The target has received the complete guest, but can't store it.
	j.expects()
	obstacle := filepath.Join(j.toDir, "data", "uuid.txt")
	require.NoError(t, os.Mkdir(obstacle, 0o700))
	stays("uuid.txt")
	require.Contains(t, j.receiving.out.String(), "event=Complete")
	require.NoError(t, os.Remove(obstacle))

	// The target's folder contains the TPM of another VM.
	j.expects()
	other := filepath.Join(j.toDir, "data", "tpm", "tpm2-00.permall")
	require.NoError(t, os.Mkdir(filepath.Dir(other), 0o700))
	require.NoError(t, os.WriteFile(other, []byte("another's"), 0o600))
	out, err := j.migrate()
	require.Error(t, err)
	require.Contains(t, out, other+" is the state of a TPM, and the guest brings its own")
	require.Equal(t, 1, j.receiving.exit())
	text, err := os.ReadFile(other)
	require.NoError(t, err)
	require.Equal(t, "another's", string(text))
	u.works()
	require.NoError(t, os.RemoveAll(filepath.Dir(other)))

	j.expects()
	j.moves()
	u.movedTo(j.toDir)
}

// If a runner is killed after it has received the guest, but before it has moved the TPM's state to the final folder,
// the next runner completes this, whether or not the machine still runs.
func TestTheNextRunnerTakesOverATPM(t *testing.T) {
	t.Parallel()
	dir := folder(t, "standard", append(counterSection(t), "useTpm: true")...)
	data := filepath.Join(dir, "data")
	p := booted(t, dir)
	state, err := os.Stat(filepath.Join(data, "tpm"))
	require.NoError(t, err)
	keys, _, err := link.NewKeys("127.0.0.1:0", time.Now())
	require.NoError(t, err)
	for _, ends := range []bool{false, true} {
		p.kill()
		if ends {
			killAll(t, dir, p)
		}
		require.NoError(t, os.Rename(filepath.Join(data, "tpm"), filepath.Join(data, "tpm.arriving")))
		require.NoError(t, os.Mkdir(filepath.Join(data, "tpm"), 0o700)) // a restart would use it
		require.NoError(t, handover.Note{Record: migrate.Taken, Keys: keys}.Write(data))
		p = start(t, dir, nil)
		p.await(map[bool]string{false: `adopted`, true: `booting`}[ends])
		wait.Until(t, func() bool {
			now, err := os.Stat(filepath.Join(data, "tpm"))
			return err == nil && os.SameFile(state, now)
		})
		require.Equal(t, []string{"tpm"}, tpmFolders(t, dir))
		for _, pid := range invariants.Processes(t, dir)["swtpm"] {
			works, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
			require.NoError(t, err)
			require.Equal(t, filepath.Join(data, "tpm"), works)
		}
	}
}

// Once the guest belongs to the target, its TPM survives a power cut there. The source's TPM is obsolete.
func TestATPMThatHasComeSurvivesAPowerCut(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	j := newJourney(t, "standard", append(counterSection(t), "useTpm: true"))
	mount := filepath.Join(j.toDir, "disk")
	require.NoError(t, os.Mkdir(mount, 0o700))
	m := newMedium(t, mount)
	rewrite(t, j.toDir, "dataDir: data", "dataDir: disk/data")
	j.begins()
	began := m.now()
	out, err := j.migrate()
	ended := m.now()
	require.NoError(t, err, out)
	require.Zero(t, j.sending.exit())
	state, err := os.ReadFile(filepath.Join(j.fromDir, "data", "tpm", "tpm2-00.permall"))
	require.NoError(t, err)
	j.receiving.ends()
	m.stopBystander()
	unmount(t, mount)

	count, random := chance(t, "VMOP_CUTS", 20)
	var moments []int64
	for n := range count {
		moments = append(moments, began+(ended-began)*int64(n+1)/int64(count))
	}
	taken := 0
	m.cuts(moments, random, func(c cut) {
		image, data := filepath.Join(j.toDir, "cut.img"), filepath.Join(mount, "data")
		writeSparse(t, image, c.image)
		mountImage(t, image, mount)
		note, err := handover.Read(data)
		require.NoError(t, err)
		if note.Record == migrate.Taken || c.at == ended {
			taken++
			require.NoError(t, launch.AcceptTPM(data))
			left, err := os.ReadFile(filepath.Join(data, "tpm", "tpm2-00.permall"))
			require.NoError(t, err)
			require.Equal(t, state, left, "at %d of %d", c.at, ended)
		}
		unmount(t, mount)
		require.NoError(t, os.Remove(image))
	})
	t.Logf("the guest was the target's at %d of %d moments", taken, count)
}
